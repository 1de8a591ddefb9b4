"""run.py makes its virtual environment anew where an earlier try left half of one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import ROOT


def test_an_environment_without_pip_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Debian's python3-venv was missing: `venv` makes the folder, says what to install, and ends the program."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    tries: list[bool] = []
    folder, venv = tmp_path / ".venv", SimpleNamespace(create=run.venv.create)

    def create(place: Path, with_pip: bool) -> None:
        tries.append(with_pip)
        if len(tries) == 1:
            venv.create(place, with_pip=False)
            sys.exit(1)
        pip = place / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages" / "pip"
        pip.mkdir(parents=True)
        (pip / "__main__.py").touch()

    monkeypatch.setattr(run.venv, "create", create)
    monkeypatch.setattr(run, "by_uv", lambda *_: True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(SystemExit):
        run.install("dev", folder)
    assert run.install("dev", folder) == folder / "bin" / "python"
    assert tries == [True, True]
    (folder / "installed-dev").unlink()
    run.install("dev", folder)
    assert tries == [True, True]  # with pip, it stays

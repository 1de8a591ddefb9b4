"""run.py: its virtual environment is made anew where an earlier try left half of one; and which tests it takes for slow."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from support import ROOT


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run", found)  # where its classes look for themselves
    spec.loader.exec_module(found)
    return found


def test_what_a_short_run_takes_for_slow_is_what_would_be_on_the_machine_of_all_tests(run: ModuleType) -> None:
    known = {"a.py::slow": 10, "a.py::slower": 20, "a.py::brief": 1, "a.py::briefer": 1, "b.py::left_out": 7}
    took = {
        "slow": 18.0,
        "slower": 44.0,
        "brief": 9.0,
        "briefer": 9.0,
        "new": 9.0,
        "quick": 3.9,
    }  # half as fast, but for the first tests of files
    tests = [run.Taken("a.py", name, seconds + 50, seconds) for name, seconds in took.items()]
    assert run.with_new(known, tests) == known | {"a.py::new": 4}
    assert run.with_new({}, tests[:2]) == {"a.py::slow": 18, "a.py::slower": 44}


def test_an_environment_without_pip_is_mended(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Debian's python3-venv was missing: `venv` makes the folder, says what to install, and ends the program."""
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

#!/usr/bin/env python3
"""One command for each thing to do here. Makes .venv, installs what is needed, and goes.

python3 run.py quickstart    the main job, on real data
python3 run.py tests         all checks and tests
python3 run.py benchmark     speed, side by side with Spark's own operators
python3 run.py pages         the reference pages in docs/, made anew
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
EXTRAS = {"quickstart": "examples", "tests": "dev", "benchmark": "bench", "pages": "dev"}


def main() -> int:
    task, *rest = sys.argv[1:] or [""]
    if task not in EXTRAS:
        print(__doc__)
        return 2
    if sys.version_info < (3, 11):
        print(f"Python 3.11 or later is needed; this is {sys.version.split()[0]} ({sys.executable}).", file=sys.stderr)
        return 1
    if (problem := java_problem()) is not None:
        print(problem, file=sys.stderr)
        return 1
    install(EXTRAS[task])
    if task == "quickstart":
        return run(PYTHON, "examples/quickstart.py")
    if task == "benchmark":
        return run(PYTHON, "tests/benchmarks/deduplicate.py", *rest)
    if task == "pages":
        return run(PYTHON, "-m", "streamtime.pages", "docs/reference")
    lay_out()
    checks = [
        (PYTHON, "-m", "ruff", "check", "."),
        (PYTHON, "-m", "ruff", "format", "--check", "."),
        (PYTHON, "-m", "mypy"),
        (PYTHON, "-m", "pytest", *rest),
    ]
    return next((code for check in checks if (code := run(*check))), 0)


def java_problem() -> str | None:
    spec = importlib.util.spec_from_file_location("java", ROOT / "catalog" / "java.py")
    assert spec is not None
    assert spec.loader is not None
    java = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(java)
    try:
        java.check()
    except java.JavaError as error:
        return str(error)
    return None


def install(extra: str) -> None:
    """Into .venv, unless the same was installed before."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + extra.encode()).hexdigest()
    stamp = VENV / f"installed-{extra}"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        print("[Making .venv ..]", flush=True)
        venv.create(VENV, with_pip=True)
    print(
        f"[Installing streamtime with its {extra} requirements into .venv; Spark alone is 450 MB, so this takes a few minutes ..]",
        flush=True,
    )
    code = run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f".[{extra}]")
    if code:
        sys.exit(code)
    stamp.write_text(wanted)


def lay_out() -> None:
    """The package as it is installed, for mypy, which does not see through an editable install."""
    package = VENV / "laid-out" / "streamtime"
    shutil.rmtree(package, ignore_errors=True)
    for folder, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        shutil.copytree(ROOT / folder, package / inside, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def run(*command: str | Path) -> int:
    return subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

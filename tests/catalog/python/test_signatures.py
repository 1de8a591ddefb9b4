"""What type checkers and editors see of the Python API: api.pyi says what the SPECs say, and both checkers find what is wrong."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from support import ROOT

import streamtime
from streamtime.python.stubs import PATH, stub
from streamtime.python.table_functions import signature
from streamtime.shelf import FUNCTIONS

TYPED = ROOT / "tests" / "typed"
Places = set[tuple[str, int]]  # file and line


def test_the_signatures_are_what_the_specs_say() -> None:
    """Run `python3 run.py pages` after changing a SPEC."""
    assert PATH.read_text() == stub()


def test_every_function_has_a_signature_with_its_options_and_a_docstring() -> None:
    defined = {d.name: d for d in ast.parse(stub()).body if isinstance(d, ast.FunctionDef)}
    assert sorted(defined) == sorted(s.name.lower() for s in FUNCTIONS if s.leading)
    for name, definition in defined.items():
        function = getattr(streamtime, name)
        parameters = [a.arg for a in (*definition.args.args, *definition.args.kwonlyargs)]
        assert parameters == [*inspect.signature(function).parameters]
        said = ast.get_docstring(definition)
        assert said
        assert function.__doc__.startswith(said)
        assert all(re.search(rf"^    {p}: \S", said, re.MULTILINE) for p in parameters)


def test_no_option_is_named_as_what_a_function_is_over() -> None:
    for spec in FUNCTIONS:
        parameters = [*signature(spec).parameters]
        assert len(parameters) == len(set(parameters)), spec.name


def test_help_shows_a_function_with_its_signature() -> None:
    shown = inspect.getdoc(streamtime.deduplicate)
    assert shown is not None
    assert inspect.isfunction(streamtime.deduplicate)
    parameters = inspect.signature(streamtime.deduplicate).parameters
    assert parameters["df"].annotation is DataFrame
    assert parameters["order_by"].default is inspect.Parameter.empty
    assert inspect.signature(streamtime.distinct_in_window).parameters["grace"].default.total_seconds() == 0
    assert "## What it does" in shown
    assert 'streamtime.deduplicate(df, keys=["k"], order_by=["ts"], within=timedelta(minutes=10))' in shown


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is installed: neither checker sees through an editable install."""
    folder = tmp_path_factory.mktemp("installed")
    for part, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / "streamtime" / inside, dirs_exist_ok=True, ignore=ignored)
    return folder


def marked() -> Places:
    return {(p.name, n) for p in TYPED.glob("*.py") for n, line in enumerate(p.read_text().splitlines(), 1) if "# wrong" in line}


@pytest.mark.long("tests/catalog/python/test_signatures.py::test_pyright_refuses_each_wrong_call_and_accepts_each_right_one")
def test_mypy_refuses_each_wrong_call_and_accepts_each_right_one(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nmypy_path = {installed}\nfollow_imports = silent\n[mypy-pandas.*,py4j.*,pyarrow.*]\nignore_missing_imports = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", "--strict", "--no-error-summary"]
    done = subprocess.run([*command, *TYPED.glob("*.py")], cwd=TYPED, capture_output=True, text=True, check=False)
    found: Places = {(m[1], int(m[2])) for m in re.finditer(r"^(\w+\.py):(\d+): error:", done.stdout, re.MULTILINE)}
    assert found == marked(), done.stdout + done.stderr


@pytest.mark.short("the types of the Python API")
def test_pyright_refuses_each_wrong_call_and_accepts_each_right_one(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pyrightconfig.json"
    shutil.copytree(TYPED, tmp_path / "typed")  # it looks for files beside its settings only
    settings.write_text(json.dumps({"include": ["typed"], "extraPaths": [str(installed)], "typeCheckingMode": "standard"}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--project", settings, "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    errors = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    found: Places = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors}
    assert found == marked(), json.dumps(errors, indent=1)

"""The house: which folder may import which, and what only one of them knows."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

# A folder, and the folders that it may import, imports for type checkers included. Each imports what stands below it; only `catalog` has both the
# front (api, session, pages) and what all of catalog stands on (shelf, sparks, java, describe, version, widths, workers).
ROOMS = {
    "catalog/shell": "catalog, catalog/maintained, catalog/explore, catalog/plain, catalog/statements, catalog/server, catalog/dbt, sql/call, sql/stream, sql/syntax",
    "catalog/maintained": "catalog, catalog/statements, sql/call, sql/rows, sql/syntax, sql/tables",
    "catalog/monitoring": "catalog/store, sql/call",
    "catalog/notebook": "catalog, catalog/door, catalog/pictures, catalog/shell, catalog/statements, sql/call",
    "catalog": "catalog/maintained, catalog/monitoring, catalog/notebook, catalog/pictures, catalog/shell, catalog/plain, catalog/door, catalog/python, catalog/statements, catalog/store, sql/call, sql/functions, sql/rows, sql/stream, sql/syntax",
    "catalog/server": "catalog, catalog/door",
    "catalog/dbt/found": "catalog, catalog/dbt",
    "catalog/dbt": "catalog, catalog/maintained, catalog/plain, sql/call, sql/syntax",
    "catalog/explore": "catalog/pictures, catalog/statements, sql/syntax",
    "catalog/pictures": "catalog, catalog/statements, sql/as_of, sql/call, sql/rows, sql/syntax, sql/tables, udfs",
    "catalog/plain": "catalog, catalog/door, catalog/statements, sql/call, sql/syntax, sql/udtf",
    "catalog/store": "catalog, catalog/statements, sql/call, sql/rows, sql/syntax, sql/tables, udfs",
    "catalog/door": "catalog, catalog/statements, sql/call, sql/rows, sql/syntax, sql/tables, sql/udtf",
    "catalog/python": "catalog, sql/call, sql/syntax, sql/tables",
    "catalog/statements": "catalog, sql/call, sql/rows, sql/syntax, sql/tables",
    "sql/functions": "sql/udtf, sql/changes, sql/as_of, sql/suppress, sql/windows, sql/plain, sql/stream, sql/tables, sql/rows, sql/syntax, sql/call, "
    "udfs, udfs/arrays, udfs/assignment, udfs/sessions, udfs/suppress, udfs/updates",
    "sql/udtf": "sql/changes, sql/suppress, sql/windows, sql/rows, sql/syntax, sql/call, udfs, udfs/arrays, udfs/changes, udfs/sessions, "
    "udfs/suppress, udfs/updates",
    "sql/changes": "sql/as_of, sql/plain, sql/windows, sql/stream, sql/rows, sql/syntax, sql/call, udfs, udfs/changes",
    "sql/as_of": "sql/plain, sql/stream, sql/tables, sql/rows, sql/syntax, sql/call, udfs, udfs/arrays",
    "sql/suppress": "sql/windows, sql/plain, sql/stream, sql/tables, sql/rows, sql/syntax, sql/call, udfs, udfs/arrays, udfs/suppress",
    "sql/windows": "sql/plain, sql/stream, sql/rows, sql/syntax, sql/call, udfs, udfs/arrays, udfs/sessions, udfs/updates",
    "sql/plain": "sql/rows, sql/syntax, udfs, udfs/updates",
    "sql/stream": "sql/rows, sql/syntax, sql/call, udfs, udfs/arrays",
    "sql/tables": "sql/rows, sql/syntax, sql/call",
    "sql/rows": "sql/syntax, sql/call, udfs, udfs/arrays",
    "sql/syntax": "sql/call",
    "sql/call": "udfs/arrays, udfs/suppress, udfs/updates",  # what a SPEC says of rows in memory has their types
    "sql": "",
    "udfs/changes": "udfs, udfs/arrays",
    "udfs/sessions": "udfs, udfs/arrays",
    "udfs/suppress": "udfs, udfs/arrays",
    "udfs/updates": "udfs, udfs/arrays, udfs/sessions",
    "udfs": "udfs/arrays",
    "udfs/arrays": "",
    "udfs/assignment": "",
}
PACKAGES = {"streamtime.sql": "sql", "streamtime.udfs": "udfs", "streamtime": "catalog"}
ELSEWHERE = {"catalog/dbt/found": "dbt.adapters.streamtime"}  # a folder that is installed where another program looks for it
ALONE = {  # what only these may have
    "sql/stream": ["pyspark.sql.streaming.stateful_processor"],
    "catalog/monitoring": ["pyspark.sql.streaming.listener"],
    "catalog/store": ["delta"],
    "catalog/dbt": ["dbt", "dbt_common"],
    "catalog/shell": ["prompt_toolkit", "tabulate"],
    "catalog/pictures": ["matplotlib"],
    "catalog/explore": ["starlette", "uvicorn"],
    "catalog/notebook": ["IPython"],
    "catalog": ["great_expectations"],
}
WORDS = {  # a word, and the files that may have it in a name
    "found": [],  # once, nearly 800 variables were: it says how a value came, and not what it is
    "kept": [  # DEDUPLICATE's row, and its time
        "udfs/deduplicate.py",
        *(f"sql/{file}.py" for file in ("functions/deduplicate", "plain/arrivals", "plain/in_order", "udtf/judges")),
        *(f"catalog/pictures/{file}.py" for file in ("drawing", "meanings", "sentences", "terminal")),
    ],
}
FILES = [path.relative_to(ROOT) for top in ("catalog", "sql", "udfs") for path in sorted((ROOT / top).rglob("*.py"))]


def module(path: Path) -> str:
    if (elsewhere := ELSEWHERE.get(path.parent.as_posix())) is not None:
        return f"{elsewhere}.{path.stem}".removesuffix(".__init__")
    package = {folder: name for name, folder in PACKAGES.items()}[path.parts[0]]
    return ".".join((package, *path.with_suffix("").parts[1:])).removesuffix(".__init__")


MODULES = {module(path): path for path in FILES}


@functools.cache
def imported(path: Path) -> list[str]:
    """All modules that a file imports, wherever the line stands."""
    return list(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


OURS = {name: {i for i in imported(path) if i in MODULES} - {name} for name, path in MODULES.items()}


@pytest.mark.parametrize("folder", sorted({path.parent.as_posix() for path in FILES}))
def test_a_folder_imports_what_stands_in_the_table(folder: str) -> None:
    allowed = {folder, *ROOMS[folder].split(", ")}
    for name, path in MODULES.items():
        if path.parent.as_posix() == folder:
            for other in OURS[name]:
                assert MODULES[other].parent.as_posix() in allowed, f"{path} imports {other}"


def test_the_table_allows_nothing_that_nobody_needs() -> None:
    for folder, allowed in ROOMS.items():
        used = {
            MODULES[other].parent.as_posix() for name, path in MODULES.items() if path.parent.as_posix() == folder for other in OURS[name]
        }
        assert set(filter(None, allowed.split(", "))) == used - {folder}, folder


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {name: set(others) for name, others in OURS.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"in a circle, or upon one: {sorted(left)}"


def test_nobody_but_main_and_the_notebook_imports_the_shell_and_no_page_imports_a_page() -> None:
    for name, path in MODULES.items():
        if path.parts[:2] not in (("catalog", "shell"), ("catalog", "notebook")) and name != "streamtime.__main__":
            assert not [i for i in OURS[name] if i.startswith("streamtime.shell")], path
        if path.parts[:2] == ("sql", "functions"):
            assert not [i for i in OURS[name] if i.startswith("streamtime.sql.functions")], path


def test_what_one_folder_alone_knows() -> None:
    for path in FILES:
        for folder, names in ALONE.items():
            if path.parent.as_posix() != folder:
                assert not [i for i in imported(path) for n in names if i == n or i.startswith(f"{n}.")], f"{path}: only {folder} may"
        if path.parts[0] == "udfs":
            assert not [i for i in imported(path) if i.startswith(("pyspark", "py4j"))], f"{path}: kernels know no Spark"
        text = (ROOT / path).read_text()
        if path.parts[0] == "sql":
            assert "_jvm" not in text, path
            assert path.name == "unread.py" or "_jdf" not in text, path
        if path.parent.as_posix() not in ("catalog/door", "catalog/plain") and path.as_posix() != "catalog/server/doors.py":
            assert "org.apache.spark.sql.c" not in text, (
                f"{path}: only catalog/door, what prints plans and what serves touch classes of the JVM"
            )
        if path.parts[:2] == ("sql", "syntax"):
            assert not [i for i in imported(path) if i.startswith("pyspark")], f"{path}: text only, no Spark"


def test_a_folder_holds_about_a_dozen_rooms_each_says_what_it_is_and_no_file_grows_into_two() -> None:
    for folder in {path.parent for path in FILES}:
        most = 20 if folder.as_posix() == "sql/functions" else 13  # there, one page per function
        assert len([p for p in FILES if p.parent == folder and p.stem != "__init__"]) <= most, folder
        assert ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())), folder
    for path in FILES:
        assert len((ROOT / path).read_text().splitlines()) < 400, path


def test_every_folder_is_packed() -> None:
    listed = (ROOT / "pyproject.toml").read_text().partition("packages = [")[2].partition("]")[0]
    assert {name.strip().strip('"') for name in listed.replace("\n", ",").split(",")} - {""} == {
        module(path) for path in FILES if path.stem == "__init__"
    }


def test_no_test_imports_another() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in modules if name.rpartition(".")[2].startswith("test_")], path


def test_a_class_has_a_name_of_its_own() -> None:
    """So that a reader who looks for it finds one."""
    named: dict[str, Path] = {}
    for path in FILES:
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.ClassDef):
                assert node.name not in named, f"{node.name}: {path} and {named[node.name]}"
                named[node.name] = path


def test_a_word_of_contributing_means_one_thing() -> None:
    """A name says what a value is. Names are those of variables, parameters, fields, functions, and of columns, which are constants."""
    for path in FILES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            for name in (getattr(node, kind, "") for kind in ("id", "arg", "attr", "name", "value")):
                if isinstance(name, str) and name.isidentifier():
                    words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("not_found", "").split("_")  # others' errors
                    for word, rooms in WORDS.items():
                        assert word not in words or path.as_posix() in rooms, f"{path}:{getattr(node, 'lineno', '?')}: {name}"


def test_folders_of_tests_mirror_the_source() -> None:
    source = {path.parent.as_posix() for path in FILES if path.stem != "__init__"} - ELSEWHERE.keys()
    tests = {
        path.parent.relative_to(ROOT / "tests").as_posix()
        for top in ("catalog", "sql", "udfs")
        for path in (ROOT / "tests" / top).rglob("*.py")
    }
    assert tests == source

"""Rules that the source itself keeps, since no test of rows would find each place that breaks them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for folder in ("sql", "udfs", "catalog") for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_join_of_columns_is_null_safe_or_says_why_not(path: Path) -> None:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if (
            re.search(r"\b(?!Entries|pathsep)\w+\.join\((?!\w*\))|DeltaTable.*\.merge\(", line) and '".join(' not in line
        ):  # .join(5) waits for a thread
            around = "\n".join(lines[max(number - 3, 0) : number + 1])
            assert "together(" in line or "eqNullSafe" in around or "null-safe" in around, f"{path.name}:{number + 1}: {line.strip()}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_time_passes_through_a_double(path: Path) -> None:
    """A DOUBLE has 53 bits: it rounds microseconds before 1684 and after 2255. Seconds that people read are divided by 1e6, and nothing else."""
    code = path.read_text().split("\nSPEC = ")[0].partition("from __future__")[2]
    for number, line in enumerate(code.splitlines()):
        for text in (r"\d[dD]\b", r"\}[dD]\b", r"total_seconds|\.timestamp\(\)|fromtimestamp", r"floor\(", r"/ \{"):
            assert not re.search(text, re.sub(r"\b\w*[a-zA-Z_]\d+[dD]\b|:\d+d(?=\})", "", line)), f"{path.name}, {number}: {line.strip()}"


SUMS = {"plus", "minus", "less", "difference", "later", "max", "min"}
OF_GRACE = {  # where a grace is added to or taken from a time
    "udfs/closing.py": "windows: the one place (W1, W3, W6)",
    "udfs/versions.py": "versions: the one place (V2)",
    "udfs/as_of_stream.py": "how much longer than a row that waits a version is held",
}


def is_grace(node: ast.expr) -> bool:
    """Whether it is a grace, by its name: `grace`, `self.grace`, `call["grace"]`, or one of them `or 0`."""
    if isinstance(node, ast.BoolOp):
        return any(map(is_grace, node.values))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "get" and any(map(is_grace, node.args))
    if isinstance(node, ast.Subscript):
        return is_grace(node.slice)
    return (
        (isinstance(node, ast.Name) and node.id == "grace")
        or (isinstance(node, ast.Attribute) and node.attr == "grace")
        or (isinstance(node, ast.Constant) and node.value == "grace")
    )


def reckons_with_grace(path: Path) -> bool:
    """Whether a file adds a grace to something, or takes it away."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.Add, ast.Sub, ast.Mod))
            and (is_grace(node.left) or is_grace(node.right))
        ):
            return True
        if isinstance(node, ast.Call) and any(map(is_grace, node.args)):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SUMS:
                return True
    return False


def test_when_a_window_closes_stands_in_one_place() -> None:
    found = {
        path.relative_to(ROOT).as_posix() for path in SOURCES if path.parent.name != "server" and reckons_with_grace(path)
    }  # a server has a grace of its own
    assert found == set(OF_GRACE)


def test_no_page_and_no_message_installs_from_where_the_pack_is_not_published() -> None:
    assert [path for path in (*SOURCES, *PAGES) if re.search(r"streamtime\[|pip install( --[\w-]+)* streamtime\b", path.read_text())] == []

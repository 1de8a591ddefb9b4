"""Rules that the source itself keeps, since no test of rows would find each place that breaks them."""

from __future__ import annotations

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


def test_no_page_and_no_message_installs_from_where_the_pack_is_not_published() -> None:
    assert [path for path in (*SOURCES, *PAGES) if re.search(r"streamtime\[|pip install( --[\w-]+)* streamtime\b", path.read_text())] == []

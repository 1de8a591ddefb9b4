"""The notebook of the examples gives what is stored in it, and the notebooks for Databricks are made of the same script."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
import sqlglot
from pyspark.sql import SparkSession
from support import ROOT
from support.programs.plain_session import NOTEBOOK, cells

from streamtime.shelf import FUNCTIONS
from streamtime.sql.syntax.tokens import blank

HERE = ROOT / "examples" / "notebook"
NASTY = """
-- What `it's` for: "ä", 100 %
-- %%sql mine <<
SELECT 'a;b' AS `o"dd` -- at the end
;
SELECT 1"""


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", HERE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> str:
    return (HERE / "orders.sql").read_text()


def answers(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, list[Any]]]:
    """The cells, each with what it shows: rows as text; of pictures and tables, that they are there."""
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        assert not [o for o in outputs if o.output_type == "error"]
        yield cell.source, [(sorted(o.data), o.data["text/plain"] if "image/svg+xml" not in o.data else "") for o in outputs]


@pytest.mark.long("tests/whole/test_documents.py")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:unclosed:ResourceWarning")
def test_the_notebook_gives_what_is_stored_in_it(build: ModuleType, script: str, tmp_path: Path) -> None:
    stored = nbformat.read(HERE / "orders.ipynb", as_version=4)
    nbformat.validate(stored)
    found = list(answers(build.executed(build.as_notebook(script), tmp_path)))
    assert found == list(answers(stored))
    assert sum(kinds == ["image/svg+xml", "text/plain"] for _, shown in found for kinds, _ in shown) == 3
    assert sum(kinds == ["text/html", "text/plain"] for _, shown in found for kinds, _ in shown) == 5


@pytest.mark.short("whether what is made of the code was made anew")
def test_the_notebooks_for_databricks_are_made_of_the_same_script(spark: SparkSession, build: ModuleType, script: str) -> None:
    assert build.INSTALL in (ROOT / "docs" / "install.md").read_text().split("## Databricks")[1]  # the lines that leave out what is there
    assert build.as_databricks(script) == (HERE / "databricks.py").read_text()
    plain = build.as_databricks(script, build.compiling(spark.newSession()))
    assert plain == NOTEBOOK.read_text()
    for text in (plain, build.as_databricks(script)):
        compile(text.replace("\n%pip", "\n# %pip"), "notebook", "exec")
        assert text.startswith("# Databricks notebook source\n")
        assert "**Not run on Databricks**" in text
    texts = [text for language, text in cells(plain) if language == "sql"]
    assert len(texts) >= 6
    for sql in texts:
        assert sqlglot.parse_one(sql, dialect="databricks")
        assert not [spec.name for spec in FUNCTIONS if f"{spec.name}(" in blank(sql)], sql


def test_a_script_of_odd_texts_becomes_cells(build: ModuleType) -> None:
    first, second = build.cells(NASTY)
    assert (first.prose, first.options, first.sql) == ('What `it\'s` for: "ä", 100 %', "mine <<", "SELECT 'a;b' AS `o\"dd` -- at the end")
    assert (second.prose, second.options, second.sql) == ("", "", "SELECT 1")
    made = build.as_notebook(NASTY)
    assert [cell.source for cell in made.cells][2:] == [
        "%%sql mine <<\nSELECT 'a;b' AS `o\"dd` -- at the end", "mine.toPandas()", "%%sql\nSELECT 1",
    ]  # fmt: skip
    assert 'mine = spark.sql("""\nSELECT' in build.as_databricks(NASTY)

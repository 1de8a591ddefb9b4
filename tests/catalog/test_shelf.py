"""What is derived from the SPECs: pages, help, the Python API; and the conventions that keep the structure."""

from __future__ import annotations

import ast
import datetime
import inspect

import pytest
from pyspark.sql import SparkSession
from support import ROOT

import streamtime
from streamtime.describe import results
from streamtime.pages import computed, pages
from streamtime.shelf import FUNCTIONS


@pytest.mark.short("whether what is made of the code was made anew")
def test_the_reference_pages_are_what_the_code_says(spark: SparkSession) -> None:
    """Run `python3 run.py pages` after changing a docstring or a SPEC."""
    assert computed(spark) == results()
    assert {p.name: p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md")} == pages(ROOT / "docs" / "pictures")


def test_what_most_people_need_is_there_and_a_short_call_is_sql(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    for spec in FUNCTIONS:
        assert spec.summary == spec.page.splitlines()[0], spec.name
        assert set(spec.main) <= {o.name for o in spec.options}, spec.name
        assert {o.name for o in spec.options if o.required} <= set(spec.main), spec.name
        assert bool(spec.clauses) == spec.has_clauses, spec.name
        assert not any(o.default_text for o in spec.options if o.required), f"{spec.name}: what is required has no default"
        assert all(o.allowed for o in spec.options), spec.name
        parser.parsePlan(f"SELECT * FROM {spec.call}")


def test_the_catalog_lists_every_argument_of_every_registered_function(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM FUNCTION_CATALOG()").collect()
    listed = {(r.function, r.argument) for r in rows}
    expected = {(s.name, o.name) for s in FUNCTIONS for o in s.options} | {(s.name, i) for s in FUNCTIONS for i in s.inputs}
    assert listed == expected | {("FUNCTION_CATALOG", None)}
    assert all(r.description and r.rules for r in rows)
    for spec in FUNCTIONS:
        assert spark.sql(f"DESCRIBE FUNCTION {spec.name}").count() > 1


def test_the_python_api_has_the_options_of_the_spec(spark: SparkSession) -> None:
    names = {1: ["df"], 2: ["left", "right"]}
    clauses = ["keys", "order_by"]
    for spec in FUNCTIONS:
        if not spec.tables:
            continue
        function = getattr(streamtime, spec.name.lower())
        options = [o.name for o in spec.options if o.name not in clauses]
        over = list(spec.named) or [*names[spec.tables], *clauses]
        assert [*inspect.signature(function).parameters] == [*over, *options]
        assert spec.summary in function.__doc__
    df = spark.range(3).selectExpr("id AS k", "timestamp_seconds(id) AS ts")
    with pytest.raises(streamtime.CallError, match=r"deduplicate, `withn`: no such option. Did you mean `within`\?"):
        streamtime.deduplicate(df, keys=["k"], order_by=["ts"], withn=1)
    with pytest.raises(streamtime.CallError, match=r"expected a timedelta, got 10 \(int\)"):
        streamtime.deduplicate(df, keys=["k"], order_by=["ts"], within=10)
    with pytest.raises(streamtime.CallError, match="`order_by`: is missing"):
        streamtime.deduplicate(df, keys=["k"])
    within = datetime.timedelta(seconds=1)
    assert streamtime.deduplicate(df, order_by=["ts"], within=within).count() == 2


SQL_TEXT = {"expression", "sorted_by", "expr", "col", "sql", "selectExpr", "where", "filter", "parse", "SelectedColumn"}  # what takes it


def test_every_name_goes_through_the_one_function_that_quotes() -> None:
    """Names of users become SQL by `quoted`, and are read from SQL by `streamtime.sql.call.names`; `F.col` is for names of ours."""
    for path in [p for folder in ("catalog", "sql", "udfs") for p in (ROOT / folder).rglob("*.py")]:
        where, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if path.name != "in_python.py":  # which reads messages
            assert 'strip("`")' not in text, f"{where}: names are read by streamtime.sql.call.names"
        assert where == "sql/rows/kernels.py" or ".mapInArrow(" not in text, f"{where}: kernels.mapped takes columns of any name"
        assert '"`" +' not in text or where == "sql/syntax/text.py", f"{where}: names are quoted by streamtime.sql.syntax.text.quoted"
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or called(node) not in SQL_TEXT:
                continue
            for argument in node.args:
                strings = [n for n in ast.walk(argument) if isinstance(n, ast.JoinedStr)]
                assert not any(wraps_in_backquotes(s) for s in strings), f"{where}, line {node.lineno}: use quoted(..)"
            if called(node) == "col":
                assert is_ours(node.args[0]), f"{where}, line {node.lineno}: use named(..), or expression(..) with quoted(..)"


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def wraps_in_backquotes(text: ast.JoinedStr) -> bool:
    before = [v.value for v in text.values[:-1] if isinstance(v, ast.Constant)]
    return any(str(v).endswith("`") for v in before)


def is_ours(name: ast.expr) -> bool:
    """A constant, or what begins with one; or quoted."""
    if isinstance(name, ast.JoinedStr):
        placed = [v.value for v in name.values if isinstance(v, ast.FormattedValue)]
        return isinstance(name.values[0], ast.Constant) or is_ours(placed[0]) or all(is_ours(p) for p in placed)
    if isinstance(name, ast.Call):
        return called(name) == "quoted"
    return isinstance(name, ast.Constant) or (isinstance(name, ast.Name) and name.id.isupper())

"""The Python API speaks Python: what it accepts, and what it says of a wrong call.

`golden/python_calls.txt` is what is called, `golden/python_calls.out` what is said. STREAMTIME_GOLDEN=write makes the answers anew.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support import ROOT, TESTS

import streamtime
from streamtime.python.in_python import in_python

GOLDEN = TESTS / "golden"
SQL = ROOT / "sql"
OF_SQL_ALONE = (
    "as_of_clauses",
    "as_of_rewrite",
    "conditions",
    "function_catalog",
    "kinds",
    "spec",
    "tokens",
)
COUNTED = "expected x TABLE argument"  # of SQL; Python counts its DataFrames itself
NOTATION = re.compile(r"=> |INTERVAL (?!')|ARRAY\(|TABLE\(|TABLE argument|PARTITION BY|ORDER BY")
MINUTES = timedelta(minutes=10)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    rows = "(1, 0, 1, 'a'), (1, 599, 2, 'b'), (1, 600, 3, 'a'), (1, 601, 4, 'a'), (NULL, NULL, 5, NULL), (2, -1, 6, 'a')"
    text = f"SELECT user_id, timestamp_seconds(s) AS ts, n, page, map('a', 1) AS m FROM VALUES {rows} AS t(user_id, s, n, page)"
    found = spark.sql(text)
    found.createOrReplaceTempView("clicks")
    return found


def test_a_wrong_call_is_refused_in_the_words_of_python(spark: SparkSession, df: DataFrame) -> None:
    known: dict[str, Any] = {f: getattr(streamtime, f) for f in streamtime.__all__}
    known |= {"spark": spark, "df": df, "k": {"keys": "user_id", "order_by": "ts"}, "timedelta": timedelta, "np": np, "pd": pd, "F": F}
    said = []
    for call in (GOLDEN / "python_calls.txt").read_text().splitlines():
        with pytest.raises(streamtime.CallError) as caught:
            eval(call, known)
        message = str(caught.value)
        name = call.partition("(")[0]
        assert message.startswith((f"{name}:", f"{name}, ")), call
        assert len(message) < 450, call
        own = message
        for written in re.findall(r"'[^']*'|\"[^\"]*\"|`[^`]*`|Column<[^>]*>", call):  # what the call says itself may be said again
            own = own.replace(written, "").replace(written.strip("\"'"), "")
        assert not NOTATION.search(own), message
        assert caught.value.__suppress_context__, call
        said.append(f"{call}\n{message}\n")
    got, out = "\n".join(said), GOLDEN / "python_calls.out"
    reference = spark.version.startswith("4.2.")
    if os.environ.get("STREAMTIME_GOLDEN") == "write" and reference:
        out.write_text(got)
    same = str if reference else of_any_spark
    assert same(got) == same(out.read_text())


def of_any_spark(text: str) -> str:
    """The messages without Spark's own words in them: how it shows a Column or a DataFrame, and what follows the condition of an error."""
    return re.sub(r"(?<=Column<)[^>]*|(?<=Data\[|rame\[).*(?=\])|(?<=\[PARSE_SYNTAX_ERROR\]).*", "..", text)


def test_an_option_takes_all_that_python_has_for_it(df: DataFrame) -> None:
    def passed(**options: Any) -> list[int]:
        return sorted(r.n for r in streamtime.deduplicate(df, **options).select("n").collect())

    lengths = (
        MINUTES,
        pd.Timedelta("10min"),
        pd.Timedelta(600_000_000_999, "ns"),
        np.timedelta64(600, "s"),
        np.timedelta64(600_000_000_999, "ns"),
        np.timedelta64(24, "25s"),
    )
    frames = [streamtime.deduplicate(df, keys="user_id", order_by="ts", within=within) for within in lengths]
    frames += [
        streamtime.deduplicate(
            df=df, keys=keys, order_by=order, within=MINUTES, refresh=np.bool_(False), offset=None, output=np.str_("rows")
        )
        for keys in ("user_id", "`user_id`", " user_id ", ["user_id"], ("user_id",), "coalesce(user_id, NULL)")
        for order in ("ts", ["ts ASC"])
    ]
    bounded = streamtime.suppress_until_time_limit(df, keys="user_id", order_by="ts", max_records=np.int64(5), when_full="emit_early")
    assert bounded.columns[: len(df.columns)] == df.columns
    together = frames[0].select("n", F.lit(0).alias("i"))
    for i, frame in enumerate(frames[1:], 1):
        together = together.union(frame.select("n", F.lit(i)))
    found: dict[int, list[int]] = {}
    for row in together.collect():
        found.setdefault(row.i, []).append(row.n)
    assert {i: sorted(ns) for i, ns in found.items()} == {i: [1, 4, 6] for i in range(len(frames))}
    assert (
        passed(keys=["user_id", "page"], order_by=("ts", "n"))
        == passed(keys=("user_id", "page"), order_by="struct(ts, n)", time="ts")
        == [1, 2, 6]
    )


def constants(module: Path) -> Iterator[str]:
    """The texts in the functions of a module, and its named ones: what calls may be told. Where a value is put in stands a word."""
    tree = ast.parse(module.read_text())
    parts = [
        n
        for n in tree.body
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)) or (isinstance(n, ast.Assign) and not isinstance(n.value, ast.Call))
    ]
    documented = {
        id(n.body[0].value) for p in parts for n in ast.walk(p) if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(n)
    }  # type: ignore[attr-defined]
    inside = {id(v) for p in parts for n in ast.walk(p) if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in (n for p in parts for n in ast.walk(p)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented | inside:
            yield node.value


def test_every_message_can_be_said_in_python() -> None:
    """A new message whose notation `in_python` does not know fails here."""
    seen = 0
    for module in sorted(SQL.rglob("*.py")):
        if module.stem in OF_SQL_ALONE or module.parent.name == "udtf":
            continue
        for text in constants(module):
            if " " in text and NOTATION.search(text) and not text.startswith(COUNTED):
                seen += 1
                assert not NOTATION.search(re.sub(r"`[^`]*`", "", in_python(text))), f"{module.name}: {text} -> {in_python(text)}"
    assert seen > 30


@pytest.mark.parametrize(
    ("sql", "python"),
    [
        ("Add within => INTERVAL 10 MINUTES.", "Add within=timedelta(minutes=10)."),
        ("Add gap => INTERVAL 1 DAY, or slide => INTERVAL 0 SECONDS.", "Add gap=timedelta(days=1), or slide=timedelta(0)."),
        ("say watermark => INTERVAL .. here", "say watermark=timedelta(..) here"),
        ("Say ties => 'last' or 'first'.", "Say ties=\"last\" or 'first'."),
        ("Add keys => ARRAY('id', 'lower(x)').", 'Add keys=["id", "lower(x)"].'),
        ("Add from => 3 to see what changed since.", "Add from_=3 to see what changed since."),
        ("`from` comes before `to`", "`from_` comes before `to`"),
        ("refresh => true, or allow_exact => false", "refresh=True, or allow_exact=False"),
        ("given beside PARTITION BY", "given beside keys"),
        ("Name it: TABLE(SELECT *, lower(k) AS name FROM ..).", 'Name it: df.selectExpr("*", "lower(k) AS name").'),
        ("Use SUPPRESS_UNTIL_TIME_LIMIT.", "Use suppress_until_time_limit."),
        ("got 'within => INTERVAL 10 MINUTES' (str)", "got 'within => INTERVAL 10 MINUTES' (str)"),
        ("no column `ORDER BY` on the left side's, `keys => ARRAY('k')`", "no column `ORDER BY` on the left side's, `keys => ARRAY('k')`"),
    ],
)
def test_what_sql_writes_python_writes_its_own_way(sql: str, python: str) -> None:
    assert in_python(sql) == python
    assert in_python(python) == python

"""Golden SQL conversations: `golden/*.sql` is what is asked, `golden/*.out` what was answered. STREAMTIME_GOLDEN=write makes the answers anew.

The answers are those of Spark 4.2. Other versions word their own errors otherwise; there, such an error only has to have the same condition.
"""

from __future__ import annotations

import os
import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS
from support.golden import FREE, of_any_spark

from streamtime.shell.script import statements

GOLDEN = TESTS / "golden"


def answer(spark: SparkSession, statement: str) -> str:
    try:
        df = spark.sql(statement)
    except AnalysisException as error:
        first = re.split(r"(?<=pos \d);|(?<=pos \d\d);|(?<=pos \d\d\d);|;\n", str(error))[0]
        return f"{type(error).__name__}: {re.sub(r'#[0-9]+', '#N', first).strip()}"
    if not df.columns:
        return "ok"
    rows = [" | ".join("NULL" if v is None else str(v) for v in row) for row in df.collect()]
    if "ORDER BY" not in statement.rpartition(")")[2]:
        rows.sort()
    return "\n".join([df.schema.simpleString(), *rows])


def conversation(spark: SparkSession, text: str) -> str:
    spoken = [(statement.sql, answer(spark, statement.sql)) for statement in statements(text)]
    return "\n\n".join(f"{asked};\n{answered}" for asked, answered in spoken) + "\n"


@pytest.mark.parametrize("name", sorted(p.stem for p in GOLDEN.glob("*.sql")))
def test_conversation(spark: SparkSession, name: str) -> None:
    got = conversation(spark, (GOLDEN / f"{name}.sql").read_text())
    out = GOLDEN / f"{name}.out"
    reference = spark.version.startswith("4.2.")
    if os.environ.get("STREAMTIME_GOLDEN") == "write" and reference:
        out.write_text(got)
    same = str if reference else of_any_spark
    assert same(got) == same(out.read_text())


# A sentence of ours behind Spark's own
HINTED = re.compile(r"Syntax error at or near .*?\. .+ SQLSTATE: 42601|retry the query again\. \S")


def test_more_than_a_hundred_and_thirty_wrong_calls_are_refused_in_words(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    setup, *calls = (s.sql for s in statements((GOLDEN / "wrong_calls.sql").read_text()))
    spark.sql(setup)
    ours = 0
    tables = [c for c in calls if c.startswith(("CREATE", "DROP"))]
    for call in calls:
        if call in tables:
            spark.sql(call)
            continue
        capfd.readouterr()
        with pytest.raises(AnalysisException) as caught:
            spark.sql(call)  # analysis alone: no action follows
        message = str(caught.value)
        assert "Traceback" not in message, call
        assert "py4j" not in message.lower(), call
        by_us = message.strip().startswith(FREE)
        ours += by_us or HINTED.search(message) is not None
        if by_us:
            said = message.split("\n== SQL")[0].strip()
            assert len(said) < 450, call
            assert "\n" not in said, call
            assert capfd.readouterr() == ("", ""), call
            assert re.search(r"; line \d+ pos \d+|\(line \d+, pos(ition)? \d+\)", message), call
    assert ours >= 175
    assert len(calls) - len(tables) - ours <= 16  # what Spark itself refuses before it asks us: syntax, unknown tables, bare columns

"""Golden SQL conversations: `golden/*.sql` is what is asked, `golden/*.out` what was answered. STREAMTIME_GOLDEN=write makes the answers anew.

The answers are those of Spark 4.2. Other versions word their own errors otherwise; there, such an error only has to have the same condition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import nullcontext

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS
from support.pages.golden import FREE, of_any_spark
from support.programs.jvm import compiled

from streamtime.shell.script import statements

GOLDEN = TESTS / "golden"
WRONG = "wrong_calls"  # whose answers are all errors, of which more must hold than their words
COMPILED = ("as_of", "suppress")  # conversations whose plans Spark compiles, as for users; scenarios of all functions are compiled, too


def answer(spark: SparkSession, statement: str) -> str | AnalysisException:
    """What is shown, or how the analyzer refuses it: an error of a run is none of ours, and is raised."""
    try:
        df = spark.sql(statement)
    except AnalysisException as error:
        return error
    if not df.columns:
        return "ok"
    rows = [" | ".join("NULL" if v is None else str(v) for v in row) for row in df.collect()]
    if "ORDER BY" not in statement.rpartition(")")[2]:
        rows.sort()
    return "\n".join([df.schema.simpleString(), *rows])


def shown(answered: str | AnalysisException) -> str:
    if isinstance(answered, str):
        return answered
    first = re.split(r"(?<=pos \d);|(?<=pos \d\d);|(?<=pos \d\d\d);|;\n", str(answered))[0]
    return f"{type(answered).__name__}: {re.sub(r'#[0-9]+', '#N', first).strip()}"


def asked_of(name: str) -> list[str]:
    return [statement.sql for statement in statements((GOLDEN / f"{name}.sql").read_text())]


def compare(spark: SparkSession, name: str, spoken: Iterable[tuple[str, str | AnalysisException]]) -> None:
    """A conversation with the one in its file."""
    got = "\n\n".join(f"{asked};\n{shown(answered)}" for asked, answered in spoken) + "\n"
    out = GOLDEN / f"{name}.out"
    reference = spark.version.startswith("4.2.")
    if os.environ.get("STREAMTIME_GOLDEN") == "write" and reference:
        out.write_text(got)
    same = str if reference else of_any_spark
    assert same(got) == same(out.read_text())


@pytest.mark.parametrize("name", sorted({p.stem for p in GOLDEN.glob("*.sql")} - {WRONG}))
def test_conversation(spark: SparkSession, name: str) -> None:
    with compiled(spark) if name in COMPILED else nullcontext():
        compare(spark, name, [(asked, answer(spark, asked)) for asked in asked_of(name)])


# A sentence of ours behind Spark's own
HINTED = re.compile(r"Syntax error at or near .*?\. .+ SQLSTATE: 42601|retry the query again\. \S")


@pytest.mark.short("what is said of wrong calls")
def test_more_than_a_hundred_and_thirty_wrong_calls_are_refused_in_words(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """Each is asked once, for its words and for what else holds of them."""
    spoken, calls, ours = [], 0, 0
    for number, call in enumerate(asked_of(WRONG)):
        capfd.readouterr()
        answered, said = answer(spark, call), capfd.readouterr()
        spoken.append((call, answered))
        if number == 0 or call.startswith(("CREATE", "DROP")):
            assert answered == "ok"
            continue
        calls += 1
        assert isinstance(answered, AnalysisException), call
        message = str(answered)
        assert "Traceback" not in message, call
        assert "py4j" not in message.lower(), call
        by_us = message.strip().startswith(FREE)
        ours += by_us or HINTED.search(message) is not None
        if by_us:
            words = message.split("\n== SQL")[0].strip()
            assert len(words) < 450, call
            assert "\n" not in words, call
            assert said == ("", ""), call
            assert re.search(r"; line \d+ pos \d+|\(line \d+, pos(ition)? \d+\)", message), call
    compare(spark, WRONG, spoken)
    assert ours >= 175
    assert calls - ours <= 16  # what Spark itself refuses before it asks us: syntax, unknown tables, bare columns

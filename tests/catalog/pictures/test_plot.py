"""plot(): of real calls. The pictures of the docs are those of their texts, and so the end-to-end test of each shape."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import ROOT

import streamtime
from streamtime.pictures.asking import Asked, asked
from streamtime.pictures.gallery import gallery, svg
from streamtime.pictures.meanings import DROPPED, picture
from streamtime.pictures.picture import moment
from streamtime.pictures.plotting import pictured
from streamtime.pictures.seeing import Limits
from streamtime.shelf import FUNCTIONS
from streamtime.shell import cli, connection
from streamtime.shell.connection import Connection

PICTURES = ROOT / "docs" / "pictures"
DRAWN = re.compile(
    r'<g id="((?:arrow|'
    + "|".join(
        [*DROPPED, *["opened", "joined", "merged", "passed", "released", "kept", "window", "session", "version", "wait", "deletion"]]
    )
    + r') [^"]*)"'
)
WORDS = re.compile(r"<text[^>]*>([^<]*)</text>")


def shown(svg_text: str) -> Counter[str]:
    """What a figure says and draws, wherever it stands: that differs from one matplotlib to the next."""
    return Counter(DRAWN.findall(svg_text) + WORDS.findall(svg_text))


@pytest.mark.short("whether what is made of texts was made anew")
def test_the_pictures_in_the_docs_are_those_of_their_texts(spark: SparkSession) -> None:
    """Run `python3 run.py pictures` after changing one, and look at them."""
    made = gallery(spark, PICTURES)
    assert {path.stem for path in PICTURES.glob("*.svg")} == made.keys()
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    assert {name.partition(".")[0] for name in made} <= {s.name.lower() for s in FUNCTIONS}
    for name, found in made.items():
        text = svg(found)
        assert shown((PICTURES / f"{name}.svg").read_text(encoding="utf-8")) == shown(text), name
        assert f"{name}.svg" in page, name
    looks = {m.look for p in made.values() for m in p.marks} | {b.look for p in made.values() for b in p.bars}
    assert looks >= {"passed", "duplicate", "late", "replaced", "held", "too_old", "no_match", "released", "deletion"}
    assert looks >= {"kept", "window", "session", "version", "wait"}
    lookups = made["as_of_join"]
    assert len(lookups.arrows) == sum(m.look == "passed" for m in lookups.marks), "every row that matched has its arrow"


ODD = """
CREATE OR REPLACE TEMP VIEW odd AS SELECT * FROM VALUES
  (1, 'a`b', TIMESTAMP '2024-05-01 10:00:00', X'FF', 1.5D), (2, 'a`b', TIMESTAMP '2024-05-01 10:00:00', X'FF', 1.5D),
  (2, 'a`b', TIMESTAMP '2024-05-01 10:00:00', X'FF', 1.5D), (3, NULL, TIMESTAMP '9999-12-31 23:59:59.999999', NULL, double('NaN')),
  (4, '', TIMESTAMP '0001-01-01 00:00:00', X'', -0.0D), (5, 'a`b', NULL, NULL, NULL), (NULL, 'x', TIMESTAMP '1969-12-31 23:59:59', NULL, NULL)
  AS odd(`o o`, `k.k`, `t``t`, b, `reason`)
"""
CALLS = [
    ("DEDUPLICATE(TABLE(o) PARTITION BY k ORDER BY `o o`, time => '`t``t`', within => INTERVAL 1 DAY)", {"duplicate": 2, "null_time": 2}),
    ("SESSIONIZE(TABLE(o) PARTITION BY k ORDER BY `o o` DESC, time => '`t``t`', gap => INTERVAL 1 DAY, grace => INTERVAL 0 DAYS)", {"null_key": 1, "null_time": 2}),
    ("WINDOW_UPDATES(TABLE(o) PARTITION BY k ORDER BY `t``t`, size => INTERVAL 2 DAYS, slide => INTERVAL 1 DAY, aggregates => 'count(*) AS n')", {"null_key": 1, "null_time": 1}),
    ("SUPPRESS_UNTIL_TIME_LIMIT(TABLE(o) PARTITION BY k ORDER BY `o o`, time => '`t``t`', wait => INTERVAL 1 DAY)", {"null_time": 2, "replaced": 2}),
    ("VERSIONS(TABLE(o) PARTITION BY k ORDER BY `o o`, time => '`t``t`', deleted => 'b IS NULL')", {"null_key": 1, "null_time": 2, "overwritten": 2}),
    ("AS_OF_JOIN(TABLE(o) PARTITION BY k ORDER BY `t``t`, TABLE(o) PARTITION BY k ORDER BY `t``t`)", {"null_time": 1, "null_key": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "dropped"), CALLS, ids=[c.partition("(")[0] for c, _ in CALLS])
def test_a_call_over_odd_rows_is_drawn(spark: SparkSession, call: str, dropped: dict[str, int]) -> None:
    spark.sql(ODD)
    text = f"WITH o AS (SELECT `o o`, `k.k` AS k, `t``t`, b, `reason` AS r FROM odd) SELECT count(*) FROM {call}"
    given = asked(Asked(spark, text))
    made = picture(given)
    assert len(given.rows) >= 7
    reasons = Counter(r.outcome for r in given.rows if r.outcome in DROPPED)
    assert dict(reasons) == dropped
    assert {"NULL", "''", "a`b"} <= set(made.lanes)
    assert svg(made) == svg(made)


def test_no_rows_a_hot_key_and_many_keys(spark: SparkSession) -> None:
    call = "SELECT * FROM DEDUPLICATE(TABLE({}) PARTITION BY k ORDER BY ts, within => INTERVAL 1 MINUTE)"
    rows = "SELECT if(id < 900, 'hot', concat('k', id)) AS k, timestamp_seconds(id) AS ts FROM range({})"
    with pytest.raises(ValueError, match="no rows to draw"):
        streamtime.plot(spark, call.format(rows.format(0)))
    given = asked(Asked(spark, call.format(rows.format(1000))), Limits(rows=5, lanes=3))
    assert Counter(r.lane for r in given.rows) == {"hot": 5, "k900": 1, "k901": 1}
    assert given.notes == ("only the first 5 rows of each key are drawn; hot has more", "only the first 3 keys are drawn; there are more")
    assert [r.at for r in given.rows[:2]] == [0, 1_000_000]
    one = asked(Asked(spark, call.format(rows.format(1000))), Limits(where="k = 'k950'"))
    assert [(r.lane, r.clock) for r in one.rows] == [("k950", 950_000_000)]
    assert one.notes == ()


def test_of_several_calls_one_is_drawn_and_statements_before_it_run(spark: SparkSession) -> None:
    text = """
        CREATE OR REPLACE TEMP VIEW few AS SELECT 'a' AS k, timestamp_seconds(id * 60) AS ts FROM range(4);
        WITH d AS (SELECT * FROM DEDUPLICATE(TABLE(few) PARTITION BY k ORDER BY ts, within => INTERVAL 1 MINUTE))
        SELECT * FROM SESSIONIZE(TABLE(d) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 MINUTE) -- the end
    """
    outer = pictured(spark, text).picture
    assert outer.title == "SESSIONIZE: gap 1 minute, call 2 of 2"
    assert [m.why for m in outer.marks] == ["opened", "opened"]
    inner = pictured(spark, text, call=1).picture
    assert inner.title.startswith("DEDUPLICATE: within 1 minute")
    assert [m.why for m in inner.marks] == ["passed", "duplicate", "passed", "duplicate"]
    with pytest.raises(ValueError, match="expected a number from 1 to 2"):
        pictured(spark, text, call=3)


def test_a_dataframe_that_is_an_output_is_drawn_too(spark: SparkSession) -> None:
    spark.sql(ODD)
    df = spark.sql(
        "SELECT * FROM DEDUPLICATE(TABLE(SELECT * EXCEPT (reason) FROM odd) PARTITION BY `k.k` ORDER BY `t``t`, within => INTERVAL 1 DAY,"
        " output => 'dropped')"
    )
    text = streamtime.plot(df, keys=["k.k"], time="t`t", title="what was dropped")._repr_svg_()  # type: ignore[attr-defined]
    drawn = shown(text)
    assert sum(n for name, n in drawn.items() if name.startswith("duplicate a`b")) == 2
    assert drawn["what was dropped"] == 1
    with pytest.raises(ValueError, match=r"plot, `keys`: no column `nix`"):
        streamtime.plot(df, keys=["nix"])
    with pytest.raises(
        ValueError, match=r"plot, `time`: expected one column with event times, and there are `a`, `b`. Name one: time='ts'."
    ):
        streamtime.plot(spark.sql("SELECT DATE '2024-01-01' AS a, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS b"))
    with pytest.raises(ValueError, match="no column of `x` is a time"):
        streamtime.plot(spark.sql("SELECT 1 AS x"))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("SELECT 1", ValueError, "expected a call of `DEDUPLICATE`"),
        ("SELECT * FROM FUNCTION_CATALOG()", ValueError, "has no times to draw"),
        ("SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM range(3)) ORDER BY id)", AnalysisException, "expected"),
        ("SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM range(3)) ORDER BY id, withn => 3)", AnalysisException, "Did you mean `within`"),
        ("SELECT * FROM DEDUPLICATE(TABLE(nowhere) ORDER BY id)", AnalysisException, "nowhere"),
    ],
)
def test_what_cannot_be_drawn_is_said(spark: SparkSession, text: str, error: Any, says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        streamtime.plot(spark, text)


def test_a_lookup_in_the_history_of_a_table_and_an_asof_join_are_drawn(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.prices (k STRING, ts TIMESTAMP, gone BOOLEAN) USING delta TBLPROPERTIES "
              "('streamtime.key' = 'k', 'streamtime.time' = 'ts', 'streamtime.deleted' = 'gone')")  # fmt: skip
    days = ", ".join(f"('a', TIMESTAMP '2024-01-0{day}', {gone})" for day, gone in ((2, False), (4, False), (6, True)))
    spark.sql(f"INSERT INTO {schema}.prices VALUES {days}")
    events = "(SELECT 'a' AS k, timestamp_seconds(1704067200 + 172800 * id) AS ts FROM range(4)) e"
    for join in (
        f"LEFT JOIN {schema}.prices FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k",
        f"LEFT ASOF JOIN {schema}.prices p MATCH_CONDITION (e.ts >= p.ts) ON e.k = p.k",
    ):
        made = pictured(spark, f"SELECT * FROM {events} {join}").picture
        days_of = [(moment(a.at)[8:10], moment(a.to)[8:10]) for a in made.arrows]
        assert days_of == [("03", "02"), ("05", "04")], join
        assert [(moment(b.start)[8:10], b.end and moment(b.end)[8:10]) for b in made.bars] == [("02", "04"), ("04", "06")], join
        assert len(made.marks) == 4
    with pytest.raises(AnalysisException, match="numbers of commits are no times"):
        pictured(spark, f"SELECT * FROM {events} JOIN {schema}.prices VERSION AS OF 1 + length(e.k) p ON e.k = p.k")


def test_what_a_function_that_changes_changelogs_did_is_drawn(spark: SparkSession) -> None:
    """Whatever the shelf holds can be drawn, by its own examples, or says why not."""
    for spec in FUNCTIONS:
        if spec.name not in ("JOIN_CHANGES", "AGGREGATE_CHANGES", "FILTER_CHANGES", "ASSIGN_TASKS"):
            continue
        example = spec.examples[0]
        for statement in filter(None, example.setup.split(";\n\n")):
            spark.sql(statement)
        figure = streamtime.plot(spark, example.query)
        assert len(figure.axes[0].lines) + len(figure.axes[0].patches) > 2, spec.name


def test_a_join_by_a_foreign_key_is_drawn_with_its_sentences(spark: SparkSession) -> None:
    rows = "TABLE(VALUES ({}) AS {}) PARTITION BY {} ORDER BY ts"
    left, right = (
        rows.format(f"{v}, TIMESTAMP '2024-05-01 10:0{v}:00'", n, k) for v, n, k in ((1, "o(id, ts)", "id"), (2, "p(code, ts)", "code"))
    )
    made = pictured(spark, f"SELECT * FROM JOIN_CHANGES({left}, {right}, on => 'l.id', join_type => 'left')").picture
    assert [m.why for m in made.marks] == ["alone", "waits"]  # what 'explain' says of a row, and 'all' does not


def test_the_command_line_draws_text_and_svg(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "local", lambda **_: Connection(spark, spark.sql, remote=True))
    monkeypatch.setattr(Connection, "close", lambda self: None)
    file = tmp_path / "clicks.svg"
    source = str(PICTURES / "deduplicate.sql")
    assert cli.main(["plot", source, "--width", "60", "--svg", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("DEDUPLICATE: within 10 minutes\n")
    assert "×" in said
    assert max(map(len, said.splitlines())) <= 60
    assert shown(file.read_text(encoding="utf-8"))["a row"] == 1
    assert cli.main(["plot", source, "--where", "user_id = 'bob'"]) == 0
    assert "ann" not in capsys.readouterr().out
    assert cli.main(["plot", "-e", "SELECT * FROM DEDUPLICATE(TABLE(nowhere) ORDER BY ts)"]) == 1
    assert "nowhere" in capsys.readouterr().err

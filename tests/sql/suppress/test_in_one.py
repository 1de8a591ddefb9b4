"""SUPPRESS_UNTIL_CLOSE of all changes of a call, planned as one with it: the same rows, and only where they are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.inputs import nasty
from support.inputs.nasty import Names, interval
from support.streams import Far, Source

import streamtime
from streamtime.door.results import LAST

EXACT = "count(*) AS n, sum({v}) AS total, max({t}) AS newest"
IN_ORDER = "sum({d}) AS total, avg({v}) AS mean, max({d}) AS high, first({v}) AS head, last({id}) AS tail, collect_list({id}) AS ids"
# kind of event time, whether near the end of all time, keys, order, length and slide of windows, aggregates, what is asked beside
ASKED = (
    ("TIMESTAMP", False, ["k"], ["t"], (10, 10), EXACT, "grace => INTERVAL 3 SECONDS", ""),
    ("TIMESTAMP", False, ["k"], ["t"], (10, 10), IN_ORDER, "grace => INTERVAL 3 SECONDS", ", at_end => 'emit'"),
    ("TIMESTAMP", False, ["k", "d"], ["t", "off"], (10, 4), EXACT, "grace => INTERVAL 1 SECOND", ""),
    ("TIMESTAMP", False, [], ["t"], (3, 1), IN_ORDER, "", ""),
    ("TIMESTAMP", False, [], ["t"], (1, 1), EXACT, "", ", at_end => 'emit'"),
    ("TIMESTAMP", True, ["k"], ["t", "off DESC"], (7, 3), IN_ORDER, "", ", at_end => 'emit'"),
    ("TIMESTAMP", True, ["k"], ["t"], (10, 10), EXACT, "", ""),
    ("TIMESTAMP_NTZ", False, ["v", "k"], ["t"], (5, 5), IN_ORDER, "", ""),
    ("TIMESTAMP_NTZ", True, ["k"], ["t"], (5, 5), EXACT, "grace => INTERVAL 2 SECONDS", ", at_end => 'emit'"),
    ("DATE", False, ["k"], ["t"], (3, 1), IN_ORDER, "", ""),
    ("DATE", False, ["k"], ["t"], (2, 2), EXACT, "", ", at_end => 'emit'"),
)
# on a stream: the same, to the aggregates; the first has ties, so that numbers tell
ON_A_STREAM = (
    ("TIMESTAMP_NTZ", False, [], ["off"], (5, 5), IN_ORDER),
    ("TIMESTAMP", False, ["k"], ["id"], (10, 10), EXACT),
    ("TIMESTAMP", True, ["k", "d"], ["t", "off DESC"], (10, 4), IN_ORDER),
    ("DATE", False, ["v", "k"], ["t"], (3, 1), EXACT),
)
MADE = "WINDOW_UPDATES(TABLE(pages) PARTITION BY k ORDER BY {}, size => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n'{})"
CHANGES = f"SELECT * FROM {MADE.format('ts', '')}"
BY_WINDOW, IN_THEIR_ORDER = "(k, window_start)", "(ts, change_seq)"


def called(asked: tuple[Any, ...]) -> str:
    kind, far, keys, _, lengths, *_ = asked
    return f"{kind}, {', '.join(keys) or 'no key'}, {lengths}{' far' * far}"


def clauses(names: Names, keys: list[str], order: list[str], table: str) -> tuple[str, str, str]:
    """A table with its keys and order; and those of its changes."""
    of_rows = names.clauses(keys, order, table) if keys else names.clauses(keys, order, table).replace("PARTITION BY () ", "")
    by_window = f"({', '.join([*(names.sql(f'{{{k}}}') for k in keys), 'window_start'])})"
    return of_rows, by_window, names.sql(f"({', '.join(f'{{{o.split()[0]}}}{o[len(o.split()[0]) :]}' for o in order)}, change_seq)")


def in_one(df: DataFrame) -> bool:
    """Whether no buffer holds changes in the plan of this."""
    return "__streamtime_emit_time" not in df._jdf.queryExecution().analyzed().toString()


def held(changes: str, keys: str, order: str, more: str = "") -> str:
    return f"SUPPRESS_UNTIL_CLOSE(TABLE({changes}) PARTITION BY {keys} ORDER BY {order}, time => 'change_time'{more})"


# filters, sets, other keys, another order, other options of either call
OTHERWISE = (
    held(f"{CHANGES} WHERE n > 0", BY_WINDOW, IN_THEIR_ORDER),
    held(f"{CHANGES} LIMIT 3", BY_WINDOW, IN_THEIR_ORDER),
    held(f"{CHANGES} UNION ALL {CHANGES}", BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("SELECT *", "SELECT DISTINCT *"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("SELECT *", "SELECT * EXCEPT (k), upper(k) AS k"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("SELECT *", "SELECT * EXCEPT (n), CAST(n AS INT) AS n"), BY_WINDOW, IN_THEIR_ORDER),
    held(
        CHANGES.replace(
            "SELECT *", "SELECT * EXCEPT (change_time, window_close), window_close AS change_time, change_time AS window_close"
        ),
        BY_WINDOW,
        IN_THEIR_ORDER,
    ),
    held(CHANGES.replace("SELECT *", "SELECT *, n"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("count(*)", "avg(off)"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("count(*)", "max(CAST(off AS DOUBLE))"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("count(*)", "first(off)"), BY_WINDOW, IN_THEIR_ORDER),
    held(
        CHANGES.replace("SELECT *", "SELECT * EXCEPT (emit_time)").replace("AS n", "AS n, max(off) AS emit_time"), BY_WINDOW, IN_THEIR_ORDER
    ),
    held(
        CHANGES.replace("TABLE(pages) PARTITION BY k", "TABLE(SELECT *, 'x' AS change_type FROM pages) PARTITION BY (k, change_type)"),
        "(k, change_type, window_start)",
        IN_THEIR_ORDER,
    ),
    held("changes", BY_WINDOW, IN_THEIR_ORDER),
    held(f"WITH p AS (SELECT * FROM pages) {CHANGES.replace('pages', 'p')}", BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES, "window_start", IN_THEIR_ORDER),
    held(CHANGES, "(k, window_end)", IN_THEIR_ORDER),
    held(CHANGES, "(k, window_start, n)", IN_THEIR_ORDER),
    held(CHANGES, "(upper(k), window_start)", IN_THEIR_ORDER),
    held(CHANGES, BY_WINDOW, "ts"),
    held(CHANGES, BY_WINDOW, "(ts DESC, change_seq)"),
    held(CHANGES, BY_WINDOW, "(ts, change_seq DESC)"),
    held(CHANGES, BY_WINDOW, "change_time"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER).replace("'change_time'", "'ts'"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", window_end => 'window_end'"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", window_end => 'window_end', until => 'end'"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", deleted => 'n > 5'"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", clock_by => ARRAY('k')"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", max_records => 5, when_full => 'spill'"),
    held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", output => 'all'"),
    held(CHANGES.replace("ORDER BY ts", "ORDER BY off, time => 'ts'"), BY_WINDOW, "(off, change_seq)"),
    held(CHANGES.replace("ORDER BY ts", "ORDER BY ts DESC"), BY_WINDOW, "(ts DESC, change_seq)"),
    held(CHANGES.replace("'count(*) AS n'", "'count(*) AS n', clock_by => ARRAY('k')"), BY_WINDOW, IN_THEIR_ORDER),
    held(CHANGES.replace("size", "difference"), BY_WINDOW, IN_THEIR_ORDER),
)


@pytest.fixture
def pages(spark: SparkSession) -> Iterator[None]:
    text = "VALUES ('a', TIMESTAMP '2024-05-01 10:00:01', 1), ('a', TIMESTAMP '2024-05-01 10:00:30', 2) AS pages(k, ts, off)"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW pages AS SELECT * FROM {text}")
    yield
    spark.catalog.dropTempView("pages")


@pytest.mark.parametrize("asked", ASKED, ids=map(called, ASKED))
def test_the_last_changes_are_those_that_the_buffer_lets_out(spark: SparkSession, tmp_path: Path, asked: tuple[Any, ...]) -> None:
    kind, far, keys, order, lengths, aggregates, grace, at_end = asked
    for seed in (1, 2):
        _, unit, names = nasty.drifted(spark, seed, 300, kind, far)
        once = spark.table("nasty")
        once.unionAll(once).createOrReplaceTempView("nasty")  # so that each row has one of the same time
        size, slide = (interval(n * unit) for n in lengths)
        if aggregates != EXACT or seed == 1 or slide != size:
            nasty.in_files(spark, tmp_path / str(seed))
        of_rows, by_window, in_order = clauses(names, keys, order, "nasty")
        made = f"WINDOW_UPDATES({of_rows}, size => {size}, slide => {slide}, aggregates => {names.option(aggregates)}{', ' * bool(grace)}{grace})"
        one, two = (
            spark.sql(f"SELECT * FROM {held(f'SELECT * FROM {made}{condition}', by_window, in_order, at_end)}")
            for condition in ("", " WHERE true")
        )
        assert in_one(one)
        assert not in_one(two)
        assert [(f.name, f.dataType.simpleString()) for f in one.schema] == [(f.name, f.dataType.simpleString()) for f in two.schema]
        rows, wanted = (Counter(df.select(F.struct("*").cast("string")).collect()) for df in (one, two))
        assert rows == wanted, seed
        assert wanted.total() > 5
        assert one.agg(F.max("change_seq")).first() >= (1,)


@pytest.mark.parametrize(
    "asked",
    [ON_A_STREAM[0], *(pytest.param(a, marks=pytest.mark.long("the same of one kind")) for a in ON_A_STREAM[1:])],
    ids=map(called, ON_A_STREAM),
)
def test_on_a_stream_the_last_changes_are_those_that_the_buffer_lets_out(
    spark: SparkSession, source: Source, asked: tuple[Any, ...]
) -> None:
    """However it is cut, and restarted: late rows, and times at which a window closes in the middle of a micro-batch, are among them."""
    kind, far, keys, order, lengths, aggregates = asked
    _, unit, names = nasty.drifted(spark, 4 - len(keys), 240, kind, far, late=5)
    rows = spark.table("nasty")
    of_rows, by_window, in_order = clauses(names, keys, order, "events")
    size, slide, grace = (interval(n * unit) for n in (*lengths, 3))
    options = f"time => {names.option('{t}')}, size => {size}, slide => {slide}, grace => {grace}, aggregates => {names.option(aggregates)}"
    found = []
    for condition, states in (("", 1), (" WHERE true", 2)):
        folder = source.folder / str(states)
        folder.mkdir()
        stream = Far(spark, folder, rows.schema.toDDL())
        text = f"SELECT CAST(struct(*) AS STRING) AS row, change_seq FROM {held(f'SELECT * FROM WINDOW_UPDATES({of_rows}, {options}){condition}', by_window, in_order)}"
        for first, last in ((0, 30), (30, 31), (31, 31), (31, 120), (120, 240)):
            stream.add_all(rows.where(names.sql(f"{{id}} >= {first} AND {{id}} < {last}")))
            if last != 30:
                out = stream.run(text)
        assert str(spark.sql(text)._jdf.queryExecution().analyzed()).count("TransformWithState") == states
        found.append(Counter(r.row for r in out))
    assert found[0] == found[1]
    assert found[0].total() > 5
    assert any(r.change_seq for r in out) or order == ["id"]


@pytest.mark.parametrize("more", [", name => 'held'", ", clock => 'wall'", ", output => 'all'"])
def test_on_a_stream_the_buffer_stays_where_something_else_is_asked(spark: SparkSession, tmp_path: Path, more: str) -> None:
    source = Far(spark, tmp_path, "k STRING, ts TIMESTAMP, off INT")
    source.stream().createOrReplaceTempView("pages")
    plan = spark.sql(f"SELECT * FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, more)}")._jdf.queryExecution().analyzed().toString()
    assert plan.count("TransformWithState") == 2
    for wrong, says in (
        (", at_end => 'emit'", "SUPPRESS_UNTIL_CLOSE, `at_end`: 'emit' is not"),
        (", watermark => INTERVAL 1 SECOND", "has a watermark already"),
    ):
        with pytest.raises(AnalysisException, match=says):
            spark.sql(f"SELECT * FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, wrong)}")


@pytest.mark.parametrize(
    "text",
    [
        held(CHANGES, BY_WINDOW, IN_THEIR_ORDER),
        held(f"SELECT change_time, change_seq, n, window_close, ts, window_start, k FROM ({CHANGES}) AS c", BY_WINDOW, IN_THEIR_ORDER),
        held(CHANGES, "(window_end, k, window_start, window_close)", IN_THEIR_ORDER, ", at_end => 'emit'"),
        held(CHANGES, BY_WINDOW, IN_THEIR_ORDER, ", clock => 'event', name => 'pages', watermark => INTERVAL 1 SECOND"),
        held(CHANGES.replace("pages", "p"), BY_WINDOW, IN_THEIR_ORDER),
    ],
)
@pytest.mark.usefixtures("pages")
def test_names_and_chosen_columns_do_not_hide_which_call_made_the_changes(spark: SparkSession, text: str) -> None:
    df = spark.sql(f"WITH p AS (SELECT * FROM pages WHERE off > 0) SELECT k, n, window_start FROM {text}")
    assert in_one(df)
    assert [r[:2] for r in df.collect()] == [("a", 1), ("a", 1)][: 2 if "at_end" in text else 1]


@pytest.mark.usefixtures("pages")
def test_the_buffer_holds_changes_where_something_else_is_asked(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW changes AS {CHANGES}")
    dfs = {text: spark.sql(f"SELECT * FROM {text}") for text in OTHERWISE}
    assert [text for text, df in dfs.items() if in_one(df)] == []
    assert all(df.count() > 0 for text, df in dfs.items() if "WITH" in text or "changes)" in text)


@pytest.mark.usefixtures("pages")
def test_each_call_is_planned_with_the_changes_that_it_was_given(spark: SparkSession) -> None:
    pairs = [(size, spark.sql(f"SELECT n, '{size}' FROM {held(CHANGES.replace('10 SECONDS', size), BY_WINDOW, IN_THEIR_ORDER, at)}"))
             for size, at in (("1 HOUR", ", at_end => 'emit'"), ("1 SECOND", ""), ("2 DAYS", ", at_end => 'emit'"))]  # fmt: skip
    texts = [held(CHANGES.replace("10 SECONDS", size), BY_WINDOW, IN_THEIR_ORDER, ", at_end => 'emit'") for size in ("1 HOUR", "1 SECOND")]
    both = spark.sql(f"SELECT (SELECT sum(n) FROM {texts[0]}) AS a, a.n, b.n FROM {texts[0]} AS a JOIN {texts[1]} AS b ON b.n < a.n")
    assert in_one(both)
    assert [tuple(r) for r in both.collect()] == [(2, 2, 1), (2, 2, 1)]
    assert [[r.n for r in df.collect()] for _, df in pairs] == [[2], [1], [2]]


@pytest.mark.usefixtures("pages")
def test_of_many_calls_in_a_query_those_that_are_no_longer_remembered_are_held(spark: SparkSession) -> None:
    one = f"SELECT k, n FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER)}"
    many = spark.sql(" UNION ALL ".join([one] * (LAST + 2)))
    assert Counter(many.collect()) == Counter(spark.sql(one).collect() * (LAST + 2))


@pytest.mark.usefixtures("pages")
def test_a_view_means_what_it_did_under_the_settings_of_its_day(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW changes AS {CHANGES.replace('count(*)', 'sum(hour(ts))')}")
    hours = {}
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for other in (zone, "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", other)
            hours[other] = [r.n for r in spark.sql(f"SELECT n FROM {held('changes', BY_WINDOW, IN_THEIR_ORDER)}").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert len(set(map(tuple, hours.values()))) == 1


@pytest.mark.usefixtures("pages")
def test_what_nobody_asks_for_is_not_numbered(spark: SparkSession, tmp_path: Path) -> None:
    spark.table("pages").write.parquet(str(tmp_path / "pages"))
    spark.read.parquet(str(tmp_path / "pages")).createOrReplaceTempView("pages")
    df = spark.sql(f"SELECT k, window_start, n FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER)}")
    whole = spark.sql(f"SELECT * FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER)}")
    assert "__streamtime_ties" not in df._jdf.queryExecution().optimizedPlan().toString()
    assert "__streamtime_ties" in whole._jdf.queryExecution().optimizedPlan().toString()


@pytest.mark.usefixtures("pages")
def test_a_text_that_is_no_calls_own_analyzer_plans_them_as_one_too(spark: SparkSession) -> None:
    text = f"SELECT k, n FROM {held(CHANGES, BY_WINDOW, IN_THEIR_ORDER)}"
    one = streamtime.query(spark, text)
    assert in_one(one)
    assert one.collect() == spark.sql(text).collect()
    others = (f"{CHANGES} WHERE n > 0", f"{CHANGES} LIMIT 1", f"{CHANGES} UNION ALL {CHANGES}", f"SELECT * FROM ({CHANGES})")
    assert not any(in_one(streamtime.query(spark, text.replace(CHANGES, other))) for other in others)


@pytest.mark.usefixtures("pages")
def test_of_no_rows_nothing_comes_out(spark: SparkSession) -> None:
    for at_end in ("", ", at_end => 'emit'"):
        df = spark.sql(
            f"SELECT * FROM {held(CHANGES.replace('TABLE(pages)', 'TABLE(SELECT * FROM pages WHERE off > 5)'), BY_WINDOW, IN_THEIR_ORDER, at_end)}"
        )
        assert in_one(df)
        assert df.collect() == []

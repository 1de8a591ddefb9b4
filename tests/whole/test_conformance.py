"""run.py conformance: what an engine gives is compared with what the calls give, and whatever differs is told."""

from __future__ import annotations

import datetime
import decimal
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import ROOT, as_plain
from support.inputs import nasty


@pytest.fixture(scope="module")
def tools() -> Iterator[types.SimpleNamespace]:
    """The scripts, which stand in a folder of their own."""
    folder = str(ROOT / "tests" / "conformance")
    sys.path.insert(0, folder)
    import bundle
    import certificates
    import conformance
    import engine
    import rows

    yield types.SimpleNamespace(bundle=bundle, certificates=certificates, conformance=conformance, engine=engine, rows=rows)
    sys.path.remove(folder)


class Cursor:
    def __init__(self, spark: SparkSession, wrong: bool) -> None:
        self.spark, self.wrong = spark, wrong

    def execute(self, text: str) -> None:
        self.df = self.spark.sql(text)
        self.description = [(name,) for name in self.df.columns]

    def fetchall(self) -> list[tuple[Any, ...]]:
        found = [tuple(row) for row in self.df.collect()]
        return found[1:] if self.wrong else found

    def close(self) -> None:
        pass


def test_a_call_that_runs_and_cannot_be_compiled_is_a_case_that_no_engine_passes(
    spark: SparkSession, tools: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> str:
        raise AnalysisException("[PARSE_SYNTAX_ERROR] of what was printed")

    nasty.view(spark, nasty.scenarios(5, 2))
    monkeypatch.setattr(tools.bundle.streamtime, "compile", wrong)
    made = tools.bundle.Bundle(spark, tmp_path)
    made.add("mine", "SELECT * FROM VERSIONS(TABLE(nasty) PARTITION BY (s, k) ORDER BY no_column)")
    made.add("mine", "SELECT * FROM VERSIONS(TABLE(nasty) PARTITION BY (s, k) ORDER BY t)")
    (case,) = made.cases
    assert case.function == "VERSIONS"
    assert "VERSIONS(" in case.text
    assert "not compiled: [PARSE_SYNTAX_ERROR]" in case.text


def test_an_engine_of_ones_own_gets_a_certificate(
    spark: SparkSession, tools: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").mkdir()
    nasty.view(spark, [r for r in nasty.scenarios(5, 9) if r["t"] is None or abs(r["t"]) < 10**16])
    spark.readStream.format("rate").load().createOrReplaceTempView("k")  # is no table of these statements, though a column
    made = tools.bundle.Bundle(spark, tmp_path)
    made.add("mine", "SELECT id, reason FROM DEDUPLICATE(TABLE(nasty) PARTITION BY (s, k) ORDER BY t, output => 'all')")
    made.add("mine", "SELECT * FROM VERSIONS(TABLE(nasty) PARTITION BY (s, k) ORDER BY t)")
    made.add("mine", "SELECT * FROM nasty")
    made.add(
        "mine",
        "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(nasty) PARTITION BY s ORDER BY t, max_records => 2, when_full => 'emit_early')",
    )
    made.write()
    assert [case.function for case in made.cases] == ["DEDUPLICATE", "VERSIONS"]
    assert [one["function"] for one in made.refused] == ["SUPPRESS_UNTIL_TIME_LIMIT"]
    cases = json.loads((tmp_path / "cases.json").read_text())
    assert len(cases[0]["rows"]) > 30
    spark.catalog.dropTempView("nasty")
    spark.catalog.dropTempView("k")
    version = spark.sql("SELECT version()").head()[0]  # type: ignore[index]
    for wrong in (False, True):
        (tmp_path / "results.json").unlink(missing_ok=True)
        connection = types.SimpleNamespace(cursor=lambda wrong=wrong: Cursor(spark, wrong), close=lambda: None)
        monkeypatch.setitem(sys.modules, "my_engine", types.SimpleNamespace(connect=lambda connection=connection: connection))
        tools.engine.main("own", tmp_path, tmp_path / "results.json", "my_engine:connect")
        results = json.loads((tmp_path / "results.json").read_text())
        certificate = tools.conformance.certificate(cases, results)
        assert certificate["engine"] == ("my_engine, which tells no version" if wrong else f"my_engine {version}")
        assert set(certificate["failed"]) == ({"mine 1", "mine 2"} if wrong else set())
        text = tools.conformance.report(cases, {"SESSIONIZE": 3}, [certificate])
        assert f"| `VERSIONS` | {0 if wrong else 1} of 1 |  |" in text
        assert "| `SESSIONIZE` | 0 of 0 | 3 |" in text
        assert ("What my_engine, which tells no version lacks" in text) is wrong
    spark.catalog.dropTempView("nasty")


ENGINE = """
class Cursor:
    def execute(self, text):
        if text == "lacks":
            raise RuntimeError("There is no function `get_bit` |")
        names = ["version()"] if "version" in text else ["other"] if text == "named" else ["k"]
        self.description = [(name, None, None, None, None, None, None) for name in names]
        self.answer = [("7.1",)] if "version" in text else [(1,)]

    def fetchall(self):
        return self.answer

    def close(self):
        pass


class Connection:
    cursor = Cursor

    def close(self):
        pass


def connect():
    return Connection()
"""


@pytest.fixture
def engine_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle, and beside it an engine that is a process of its own."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    about = {
        "function": "DEDUPLICATE",
        "statement": "SELECT\n 1 | 2",
        "tables": {},
        "columns": "struct<k:int>",
        "names": ["k"],
        "settings": {},
    }
    cases = [
        about | {"name": text, "text": text, "rows": [[wanted]]} for text, wanted in {"right": "1", "wrong": "2", "lacks": "1"}.items()
    ]
    cases.append(about | {"function": "VERSIONS", "name": "named", "text": "named", "rows": [["1"]]})
    (folder / "cases.json").write_text(json.dumps(cases))
    refused = [{"function": "SUPPRESS", "origin": "mine", "statement": "SELECT 3", "why": "it needs a kernel; line 1 pos 3"}]
    (folder / "refused.json").write_text(json.dumps(refused))
    (tmp_path / "my_engine.py").write_text(ENGINE)
    monkeypatch.chdir(tmp_path)
    return folder


def test_who_connects_an_engine_gets_its_certificate_in_the_folder_and_no_other_engine_runs(
    tools: types.SimpleNamespace, engine_of_mine: Path, tmp_path: Path
) -> None:
    ask = ["--connect", "my_engine:connect", "--bundle", str(engine_of_mine), "--again"]
    assert tools.conformance.main(ask) == 0
    assert sorted(file.name for file in engine_of_mine.glob("*.json")) == ["cases.json", "my_engine.connect.json", "refused.json"]
    found = json.loads((tmp_path / "certificate-my_engine.json").read_text())
    assert found["engine"] == "my_engine 7.1"
    assert found["pack"].startswith("streamtime ")
    assert (found["cases"], found["passed"]) == (4, 1)
    assert found["functions"] == {"DEDUPLICATE": {"cases": 3, "passed": 1}, "VERSIONS": {"cases": 1, "passed": 0}}
    assert {name: one["said"] for name, one in found["failed"].items()} == {
        "wrong": 'other rows: 1 in place of 1, ["2"] is missing',
        "lacks": "There is no function `get_bit` |",
        "named": "other columns: other",
    }
    assert found["cannot pass"] == [{"function": "SUPPRESS", "statement": "SELECT 3", "why": "it needs a kernel"}]
    page = (tmp_path / "certificate-my_engine.md").read_text()
    for line in (
        "# my_engine 7.1: 1 of 4 cases passed",
        "| `DEDUPLICATE` | 1 of 3 |  |",
        "| `SUPPRESS` | 0 of 0 | 1 |",
        "| There is no function 'get_bit' \\| | 1: lacks |",
        "| lacks | `SELECT 1 \\| 2` |",
        "| `SELECT 3` | it needs a kernel |",
    ):
        assert line in page.splitlines()
    assert tools.conformance.main([*ask, "--out", "there"]) == 0
    assert (tmp_path / "there" / "certificate-my_engine.md").read_text() == page


def test_what_a_certificate_cannot_be_of_is_refused_and_an_engine_that_is_not_there_is_told(
    tools: types.SimpleNamespace, engine_of_mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for more, says in (
        (["--cases"], "--connect does not go with --cases: these"),
        (["--write"], "--connect does not go with --write: docs/"),
    ):
        assert tools.conformance.main(["--connect", "my_engine:connect", *more]) == 2
        assert says in capfd.readouterr().err
    assert tools.conformance.main(["--connect", "no_such_module", "--bundle", str(engine_of_mine), "--again"]) == 1
    assert "no_such_module: ended before all cases had run (1). What it said stands above." in capfd.readouterr().err
    assert not [*tmp_path.glob("certificate*")]


def test_the_page_says_how_to_get_a_certificate(tools: types.SimpleNamespace) -> None:
    assert tools.conformance.OWN in tools.conformance.PAGE.read_text()


ROWS = "SELECT id, id % 3 AS k, timestamp_seconds(1e9 + id * 7 % 5) AS t FROM range({})"
OF_ROWS = "TABLE(kept) PARTITION BY k ORDER BY id, time => 't'"


def ask_as_tests_do(spark: SparkSession, schema: str) -> None:
    """Rows, other rows of that name, Delta tables as they were, settings of a session, what fails when it runs, what is no plain SQL."""
    for count in (9, 20):
        spark.sql(ROWS.format(count)).createOrReplaceTempView("kept")
        for _ in range(2):
            spark.sql(f"SELECT id, reason, t::STRING FROM DEDUPLICATE({OF_ROWS}, output => 'all')")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.sql(f"SELECT id, t::STRING, ('x' || id)::INT AS none FROM DEDUPLICATE({OF_ROWS})")
    spark.conf.unset("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql(f"CREATE TABLE {schema}.stock USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS SELECT 1L AS k, 10 AS amount")
    for amount in (20, 30):
        spark.sql(f"SELECT e.id, s.amount FROM kept e JOIN {schema}.stock VERSION AS OF e.id s ON s.k = e.k")
        spark.sql(f"UPDATE {schema}.stock SET amount = {amount}")
    spark.sql(f"SELECT * FROM DEDUPLICATE({OF_ROWS.replace('kept', 'SELECT *, 1 DIV (id - 3) AS x FROM kept')})")
    spark.sql(f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT({OF_ROWS}, max_records => 2, when_full => 'emit_early')")
    spark.sql("SELECT count(*) FROM kept")


def test_what_tests_ask_is_kept_and_runs_in_a_process_without_the_pack(
    spark: SparkSession, tools: types.SimpleNamespace, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = as_plain.Kept(spark, tmp_path)
    try:
        ask_as_tests_do(spark, schema)
    finally:
        kept.stop()
    kept.write()
    spark.catalog.dropTempView("kept")
    cases, refused = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("cases", "refused"))
    assert [case["function"] for case in cases] == ["DEDUPLICATE", "DEDUPLICATE", "DEDUPLICATE", "AS OF", "AS OF", "DEDUPLICATE"]
    assert [one["function"] for one in refused] == ["SUPPRESS_UNTIL_TIME_LIMIT"]
    assert [None if case["rows"] is None else len(case["rows"]) for case in cases] == [9, 20, 3, 7, 7, None]
    monkeypatch.setattr(tools.conformance, "python", lambda _: sys.executable)
    results = tools.conformance.ran("spark-4.2", tmp_path, patience=120)
    assert results["engine"].startswith("Spark 4.")
    certificate = tools.conformance.certificate(cases, results)
    assert certificate["failed"] == {}
    found = tools.conformance.counted(cases, refused, [certificate])
    file = "tests/whole/test_conformance.py"
    assert found[file]["DEDUPLICATE"] == {"cases": 4, results["engine"]: 4}
    assert found[file]["SUPPRESS_UNTIL_TIME_LIMIT"] == {"refused": 1}
    assert "| `AS OF` | 2 of 2 |  |" in tools.conformance.of_files(found)
    for case in cases:  # each is compared
        case["rows"] = None if case["rows"] else []
    assert len(tools.conformance.certificate(cases, results)["failed"]) == len(cases)


def test_an_engine_that_hangs_is_stopped_and_goes_on(tools: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cases.json").write_text(json.dumps([{"name": name} for name in "abc"]))
    (tmp_path / "engine.py").write_text(
        "import json, pathlib, sys, time\n"
        "time.sleep(2)\n"  # longer than it is waited for, before it begins
        "results = pathlib.Path(sys.argv[3])\n"
        "found = json.loads(results.read_text())['found'] if results.exists() else {}\n"
        "results.write_text(json.dumps({'engine': 'slow', 'found': found}))\n"
        "for name in 'abc':\n"
        "    if name not in found:\n"
        "        time.sleep(600 if name == 'b' else 0)\n"
        "        found[name] = {'columns': ''}\n"
        "        results.write_text(json.dumps({'engine': 'slow', 'found': found}))\n"
    )
    monkeypatch.setattr(tools.conformance, "HERE", tmp_path)
    found = tools.conformance.ran("duckdb", tmp_path, patience=1)["found"]
    assert found == {"a": {"columns": ""}, "b": {"error": "no answer within 1 s"}, "c": {"columns": ""}}
    assert tools.conformance.ran("duckdb", tmp_path, patience=1, again=True)["found"] == found


def test_an_engine_that_never_begins_is_stopped(tools: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cases.json").write_text(json.dumps([{"name": "a"}]))
    (tmp_path / "engine.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(tools.conformance, "HERE", tmp_path)
    monkeypatch.setattr(tools.conformance, "STARTING", 1)
    with pytest.raises(RuntimeError, match="duckdb did not begin within 1 s"):
        tools.conformance.ran("duckdb", tmp_path)


def test_columns_and_errors_count_too(tools: types.SimpleNamespace) -> None:
    case = {"name": "a", "columns": "struct<k:int>", "rows": [["1"]]}
    for found, says in (
        ({"columns": "struct<k:bigint>", "rows": [["1"]]}, "other columns: struct<k:bigint>"),
        ({"columns": "struct<k:int>", "rows": [["2"]]}, 'other rows: 1 in place of 1, ["1"] is missing'),
        ({"error": "no such function"}, "no such function"),
        (None, "did not run"),
    ):
        results = {"engine": "e", "found": {} if found is None else {"a": found}}
        assert tools.conformance.certificate([case], results)["failed"] == {"a": says}
    assert tools.conformance.certificate([case], {"engine": "e", "found": {"a": {"columns": "", "rows": [["1"]]}}})["failed"] == {}


def test_rows_read_the_same_from_arrow_and_from_a_cursor(tools: types.SimpleNamespace) -> None:
    utc = datetime.UTC
    moments = [datetime.datetime(1, 1, 1, tzinfo=utc), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, utc), None]
    values: dict[str, list[Any]] = {
        "moment": moments,
        "local": [None if m is None else m.replace(tzinfo=None) for m in moments],
        "day": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
        "double": [0.1 + 0.2, float("nan"), None],
        "decimal": [decimal.Decimal("1.50"), decimal.Decimal("100"), None],
        "flag": [True, False, None],
        "text": ["a", "", None],
        "many": [[1, None], [], None],
        "length": [datetime.timedelta(microseconds=1), datetime.timedelta(days=-1), None],
    }
    columns = dict(values) | {
        "moment": pa.array(moments, pa.timestamp("us", "UTC")),
        "local": pa.array(values["local"], pa.timestamp("us")),
    }
    found = tools.rows.of_table(pa.table(columns))
    assert found == tools.rows.of_rows(zip(*values.values(), strict=True))
    assert found[0] == [None] * 9
    assert ["-62135596800000000", "-62135596800000000", "-719162", "0.3", "1.5", "true", "a", '["1", null]', "1"] in found

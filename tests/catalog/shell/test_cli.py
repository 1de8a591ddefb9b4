"""The command line: results as text, scripts with exit codes, the shell in a pseudo-terminal, and what the doctor says."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from support import ROOT
from support.pages.documents import blocks
from support.terminal import Terminal

from streamtime.describe import ORDER, RULE, aligned, results
from streamtime.shelf import FUNCTIONS
from streamtime.shell import cli, connection, doctor, manual
from streamtime.shell.batch import UnreadableScript, split
from streamtime.shell.completion import Vocabulary
from streamtime.shell.connection import ConnectionFailed, address, masked, remote
from streamtime.shell.failures import readable
from streamtime.shell.rendering import Result, lines
from streamtime.shell.results import json_texts, texts
from streamtime.shell.running import told

STREAMTIME = [sys.executable, "-m", "streamtime"]


def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STREAMTIME, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=600,
    )


# -- results as text


def shown(result: Result, form: str = "table", width: int | None = None) -> list[str]:
    return list(lines(result, form, width))


def test_a_table_aligns_shows_nulls_and_keeps_a_row_on_its_line() -> None:
    result = Result(("n", "city"), [("1", "東京"), ("20", None), (None, "a\nb\x1b[31m"), ("3", "  x ")], (True, False))
    assert shown(result) == [
        "   n  city",
        "----  ------------",
        "   1  東京",
        "  20  NULL",
        r"NULL  a\nb\x1b[31m",
        "   3    x",
    ]


def test_an_empty_table_has_its_header() -> None:
    assert shown(Result(("a", "bb"), [])) == ["a    bb", "---  ----"]
    assert shown(Result(("a", "bb"), []), "csv") == ["a,bb"]
    assert shown(Result(("a", "bb"), []), "json") == []
    assert shown(Result(("a",), []), "markdown")[0].startswith("| a")


def test_a_wide_table_is_cut_to_the_terminal_and_says_so_but_numbers_are_whole() -> None:
    result = Result(("number", "text", "wide"), [("12345678901234567890", "x" * 100, "東" * 50)], (True, False, False))
    header, _, row, note = shown(result, width=80)
    assert len(header) <= 80
    assert "12345678901234567890" in row
    assert row.count("…") == 2
    assert len(row) + row.count("東") <= 80  # a wide character takes two columns
    assert "vertical" in note
    assert "…" not in "".join(shown(result))  # into a file, nothing is cut


def test_a_table_that_cannot_fit_is_written_row_by_row() -> None:
    result = Result(tuple(f"column{i}" for i in range(12)), [("value of some length",) * 12])
    written = shown(result, width=60)
    assert written[0] == "-- row 1 --"
    assert written[1] == "column0   value of some length"
    assert "wider than the terminal" in written[-1]


def test_a_single_text_of_several_lines_is_written_as_it_is() -> None:
    assert shown(Result(("plan",), [("== Plan ==\n  Scan",)])) == ["== Plan ==", "  Scan"]


def test_no_value_breaks_a_row_or_turns_it_around() -> None:
    odd = "a\u2028b\u2029c\u202ed\u2066e\x85f\x0bg\x1ch"
    seen = r"a\u2028b\u2029c\u202ed\u2066e\x85f\x0bg\x1ch"
    result = Result((odd, "n"), [(odd, "1")], (False, True))
    header, _, row = shown(result)
    assert (header.split(), row.split()) == ([seen, "n"], [seen, "1"])
    assert shown(result, "vertical")[1].split() == [seen, seen]
    header, _, row = shown(result, "markdown")
    assert (header.split(), row.split()) == (["|", seen, "|", "n", "|"], ["|", seen, "|", "1", "|"])
    assert shown(Result(("text",), [(f"{odd}\r\n\n\tend\n",), (None,)])) == [seen, "", "\tend", "NULL"]


def test_csv_quotes_what_needs_it_and_leaves_nulls_empty() -> None:
    rows = [("1", None, 'say "hi", you'), ("2", "two\nlines", "")]
    text = "\n".join(shown(Result(("a", "b", "c"), rows), "csv"))
    assert text.splitlines()[1] == '1,,"say ""hi"", you"'
    assert list(csv.reader(io.StringIO(text))) == [["a", "b", "c"], ["1", "", 'say "hi", you'], ["2", "two\nlines", ""]]


def test_markdown_escapes_pipes_and_line_breaks() -> None:
    header, rule, row = shown(Result(("a|b", "n"), [("x|y\nz", None)], (False, True)), "markdown")
    assert header.startswith(r"| a\|b")
    assert rule.endswith(":|")
    assert row.replace(" ", "") == r"|x\|y<br>z|NULL|"


# -- results of Spark

TYPES = r"""
SELECT 1 AS i, CAST(NULL AS STRING) AS nil, 'a"b\nc' AS s, X'01FF' AS bin, TIMESTAMP '2020-01-01 10:00:00.123456' AS ts,
  DATE '2020-01-02' AS d, 12345678901234567890.50BD AS dec, named_struct('x', array(1, null), 'y', map('k', 1.5D)) AS nested,
  INTERVAL 10 MINUTES AS span, INTERVAL '1-2' YEAR TO MONTH AS months, true AS b, 2 AS `odd ``name``.`"""


def test_values_read_as_sql_writes_them_in_the_time_zone_of_the_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # where Python would shift a timestamp that it collects
    time.tzset()
    try:
        result, rows = texts(spark.sql(TYPES), 10)
        (row,) = result.rows
    finally:
        monkeypatch.undo()
        time.tzset()
    assert row == (
        "1", None, 'a"b\nc', "01FF", "2020-01-01 10:00:00.123456", "2020-01-02", "12345678901234567890.50",
        "{[1, null], {k -> 1.5}}", "INTERVAL '10' MINUTE", "INTERVAL '1-2' YEAR TO MONTH", "true", "2",
    )  # fmt: skip
    assert result.names[-1] == "odd `name`."
    assert [n for n, right in zip(result.names, result.numeric, strict=True) if right] == ["i", "dec", "odd `name`."]
    assert (rows.count, rows.more) == (1, False)


def test_json_has_the_types_of_json_and_loses_no_digit(spark: SparkSession, tmp_path: Path) -> None:
    for spool in (None, tmp_path):
        ((line,),) = json_texts(spark.sql(TYPES), None, spool)
        assert line is not None
        assert '"dec":12345678901234567890.50' in line
        found = json.loads(line)
        assert found["nil"] is None
        assert found["i"] == 1
        assert found["b"] is True
        assert found["s"] == 'a"b\nc'
        assert found["ts"] == "2020-01-01T10:00:00.123456Z"
        assert found["nested"] == {"x": [1, None], "y": {"k": 1.5}}
    with pytest.raises(ValueError, match="`a` is there twice"):
        json_texts(spark.sql("SELECT 1 AS a, 2 AS a"), None)


def test_rows_beyond_the_limit_are_noticed_and_all_rows_keep_their_order(spark: SparkSession, tmp_path: Path) -> None:
    for limit, count, more in ((4, 4, True), (5, 5, False), (6, 5, False)):
        result, rows = texts(spark.range(5), limit)
        assert len(list(result.rows)) == count
        assert (rows.count, rows.more) == (count, more)
    result, rows = texts(spark.sql("SELECT id, id AS id FROM range(0, 5000, 1, 7) ORDER BY id DESC"), None, tmp_path)
    assert [int(row[0] or 0) for row in result.rows] == [*range(4999, -1, -1)]
    assert rows.count == 5000
    assert not list(tmp_path.iterdir())


def test_all_rows_go_by_this_machine_whatever_the_default_file_system_is(spark: SparkSession, tmp_path: Path) -> None:
    elsewhere, spool = spark.newSession(), tmp_path / "a b%20#"
    spool.mkdir()
    elsewhere.conf.set("fs.defaultFS", "hdfs://nowhere.invalid:1")
    result, _ = texts(elsewhere.range(2), None, spool)
    assert list(result.rows) == [("0",), ("1",)]


def test_an_error_is_a_few_lines_with_a_mark_at_its_place(spark: SparkSession) -> None:
    def said(sql: str) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011  whatever Spark raises
            spark.sql(sql).collect()
        return readable(caught.value, sql)

    assert said("SELECT *\nFROM nowhere").splitlines()[-2:] == ["  FROM nowhere", "       ^"]
    assert "Relation" not in said("SELECT *\nFROM nowhere")  # the plan
    assert said("SELECT '\u2028\r\x0c' AS a,\r\n  b\tc d\r\n FROM x").splitlines()[-2:] == ["    b c d", "        ^"]
    assert said("SELECT * FORM x").splitlines()[1:] == ["  SELECT * FORM x", "                ^"]
    division = said("SELECT id / (id - id) FROM range(3)")
    assert division.startswith("[DIVIDE_BY_ZERO]")
    assert division.splitlines()[1:] == ["  SELECT id / (id - id) FROM range(3)", "         ^"]
    typo = "SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k) PARTITION BY k ORDER BY k, withn => 1)"
    assert said(typo).startswith("DEDUPLICATE, `withn`: no such option. Did you mean `within`?")


def test_an_error_of_a_python_function_is_its_last_line() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times (TID 0) (host executor driver): "
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nZeroDivisionError: division by zero\n\n\tat org.x.Y(Z.scala:1)\n'
    )
    assert readable(RuntimeError(text)).splitlines() == ["In Python:", "ZeroDivisionError: division by zero"]


def test_progress_counts_stages_and_tasks() -> None:
    assert told([]) == ""
    assert told([(10, 10), (200, 34), (0, 0)]) == "stages 1 of 3 done, tasks 44 of 210"


# -- statements and completion


def test_statements_end_at_semicolons_outside_of_strings_names_and_comments() -> None:
    text = "-- one; two\nSELECT ';', 'it\\'s;' -- x;\n;\n\nSELECT `a;b`, \";\" /* ; */;\r\nSELECT 3; /* the end; */"
    assert [(s.sql.split("\n")[0], s.line) for s in split(text)] == [
        ("SELECT ';', 'it\\'s;' -- x;", 2),
        ('SELECT `a;b`, ";" /* ; */', 5),
        ("SELECT 3", 6),
    ]
    odd = "SELECT 'a\u2028b\r\x0b\x85' --\x0c\n;\x0c\n\n-- one\x0b;\u2028\n\u2028SELECT\r2;;-- done\rBEGIN SELECT 3; END; /* SELECT 4;"
    with pytest.raises(UnreadableScript):
        split(odd)
    assert [(s.sql, s.line) for s in split(f"{odd} */")] == [
        ("SELECT 'a\u2028b\r\x0b\x85' --", 1),
        ("SELECT\r2", 5),
        ("BEGIN SELECT 3; END", 5),
    ]
    with pytest.raises(UnreadableScript, match=r"x\.sql cannot be split"):
        split("SELECT 'open", "x.sql")


def candidates(text: str, rest: str = "", **names: object) -> list[str]:
    return [c.text for c in Vocabulary(**names).complete(text, rest)]  # type: ignore[arg-type]


def test_columns_of_the_tables_in_the_statement_are_offered() -> None:
    tables = {"clicks": ["user_id", "ts", "odd name"], "db.users": ["user_id", "town"], "`we``ird`": ["x"]}

    def offered(text: str, rest: str = "") -> list[str]:
        return candidates(text, rest, columns=lambda table: tables.get(table, []))

    assert offered("SELECT ", " FROM clicks") == ["user_id", "ts", "`odd name`"]
    assert offered("SELECT us", " FROM clicks JOIN db.users u ON true") == ["user_id"]
    assert offered("SELECT * FROM clicks c JOIN db.users AS u ON c.") == ["user_id", "ts", "`odd name`"]
    assert offered("SELECT * FROM clicks c JOIN db.users AS u ON c.user_id = u.to") == ["town"]
    assert offered("SELECT * FROM clicks c JOIN db.users AS u ON nosuch.") == []
    assert offered("SELECT * FROM db.users WHERE users.t") == ["town"]
    assert offered("SELECT * FROM `we``ird` WHERE ") == ["x"]
    assert offered("SELECT * FROM clicks; SELECT ") == offered("SELECT ", "; SELECT * FROM clicks") == []
    assert offered("SELECT 1 FROM (SELECT ", " FROM db.users) x") == ["user_id", "town"]
    assert offered("UPDATE db.users SET town = 'x' WHERE to") == ["town"]
    call = "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY "
    assert offered(call) == ["user_id", "ts", "`odd name`"]
    assert offered(call + "user_id ORDER BY t")[0] == "ts"
    assert offered(call + "user_id ORDER BY ts, time => 't") == ["'ts'"]
    assert offered(call + "user_id ORDER BY ts, wi") == ["within => "]
    assert offered("SELECT * FROM clicks WHERE page = 'u") == []


def test_inside_a_call_its_options_are_offered_once_each() -> None:
    call = "SELECT * FROM deduplicate(TABLE(SELECT a, b FROM t) PARTITION BY a ORDER BY b, "
    (spec,) = (s for s in FUNCTIONS if s.name == "DEDUPLICATE")
    assert candidates(call) == [f"{o.name} => " for o in spec.options]
    assert candidates(call + "with") == ["within => "]
    assert "within => " not in candidates(call + "within => INTERVAL 1 DAY, ")
    assert candidates(call + "keep => ") == ["'first'", "'last'", "'unique'"]
    assert candidates(call + "output => 'dr") == ["'dropped'"]
    assert candidates(call + "refresh => t") == ["true"]
    assert "within => " not in candidates("SELECT * FROM deduplicate(TABLE(SELECT a, ")
    assert "within => " not in candidates(call.removesuffix(", ") + ") WHERE a IN (1, ")
    assert candidates(call + "'with") == candidates("SELECT 1 -- with") == []


def test_keywords_functions_tables_and_commands_are_offered() -> None:
    assert candidates("sel", keywords=["SELECT", "SET"]) == ["select"]
    assert candidates("SELECT * FROM ded") == ["DEDUPLICATE("]
    assert candidates("SELECT * FROM ", tables=["clicks", "v"]) == ["clicks", "v"]
    assert candidates("SELECT * FROM cl", tables=["clicks"]) == ["clicks"]
    assert candidates("he", commands=["help"]) == ["help"]
    assert candidates("SELECT he", commands=["help"]) == []


# -- functions and options, without Java


def test_functions_need_no_java() -> None:
    done = run("functions", JAVA_HOME="/nowhere")
    assert done.returncode == 0, done.stderr
    for spec in FUNCTIONS:
        assert spec.name in done.stdout
    found = [json.loads(line) for line in run("functions", "--format", "json", JAVA_HOME="/nowhere").stdout.splitlines()]
    assert [f["function"] for f in found] == [s.name for s in FUNCTIONS]


def test_the_page_of_a_function_says_all_that_its_spec_says() -> None:
    for spec in FUNCTIONS:
        page = manual.page(manual.find(spec.name.lower()), width=72)
        assert all(len(line) <= 72 for line in page.splitlines() if not line.startswith("  ") and "=>" not in line)
        assert not RULE.search(page), "the numbers of rules are links, which a terminal has not"
        flat = " ".join(page.split())
        for option in spec.options:
            assert f"{option.name} {option.kind.sql}" in flat
            assert " ".join(option.help.split()) in flat
            assert " ".join(option.allowed.split()) in flat
        headings = [line for line in page.splitlines() if line in {h.upper() for h in ORDER}]
        assert headings == [h.upper() for h in ORDER if h.upper() in headings]
        assert {"EXAMPLE", "WHAT IT DOES", "MEMORY AND STATE"} <= set(headings)
        assert all(line in page for table in results()[spec.name] for line in aligned(table))
        assert all(" ".join(e.query.split()) in flat for e in spec.examples)


def test_an_unknown_function_is_asked_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["functions", "deduplicat"]) == 1
    assert "Did you mean `DEDUPLICATE`?" in capsys.readouterr().err
    assert cli.main(["functions", "zzz"]) == 1
    assert "DISTINCT_IN_WINDOW" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--limit", "0"], "above zero"),
        (["--limit", "2147483647"], "expected a number above zero, at most 2,147,483,646, or none for all"),
        (["--cores", "many"], "a number above zero or *"),
        (["--memory", "8"], "such as 512m or 8g"),
        (["--conf", "x"], "KEY=VALUE"),
        (["--format", "xml"], "invalid choice"),
    ],
)
def test_a_wrong_option_says_what_is_expected(capsys: pytest.CaptureFixture[str], options: list[str], says: str) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["sql", *options])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_a_script_that_cannot_run_says_why_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(connection, "local", started)
    for arguments, stdin, says in (
        (["-f", str(tmp_path / "none.sql")], "", "none.sql"),
        (["-e", "SELECT 'open"], "", "cannot be split"),
        ([], " -- nothing\n", "no statement"),
        (["-e", "SELECT 1", "--remote", "http://x"], "", "sc://host:port"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        assert cli.main(["sql", *arguments]) == 1
        assert says in capsys.readouterr().err
    with pytest.raises(AssertionError, match="Spark was started"):
        cli.main(["sql", "-e", "SELECT 1"])


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtime.shell.connection.missing_connect_packages", list)
    with pytest.raises(ConnectionFailed, match=r"no server answers at 127\.0\.0\.1:1 "):
        remote("sc://127.0.0.1:1")
    monkeypatch.setattr("streamtime.shell.connection.missing_connect_packages", lambda: ["grpcio"])
    with pytest.raises(ConnectionFailed, match="pip install grpcio"):
        remote("sc://127.0.0.1:1")


def test_a_wrong_address_is_refused_and_no_token_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert address("sc://localhost/;use_ssl=true") == ("localhost", 15002)
    assert address("sc://[::1]:7/;token=a:b") == ("::1", 7)
    for url, shown in {
        "sc://localhost:99999": "sc://localhost:99999",
        "sc://localhost:abc": "sc://localhost:abc",
        "sc://[::1": "sc://[::1",
        "sc://:15002": "sc://:15002",
        "http://localhost:15002": "http://localhost:15002",
        "sc://localhost:15002;token=SECRET==;user_id=me": "sc://localhost:15002;token=..;user_id=..",
    }.items():
        assert cli.main(["sql", "--remote", url, "-e", "SELECT 1"]) == 1
        assert capsys.readouterr().err == f"streamtime: --remote is written sc://host:port, or sc://host:port/;token=.., not {shown}\n"
        assert doctor.check("Connect server", lambda url=url: doctor.server(url)).state == "failed"  # type: ignore[misc]
    assert masked("sc://a:1/;token=SECRET;x-key=b=c") == "sc://a:1/;token=..;x-key=.."


def test_what_spark_says_of_an_address_shows_no_token_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> None:
        raise ValueError("Parameter 'token=SECRET==' should be a key-value pair separated by an equal sign")

    monkeypatch.setattr("streamtime.shell.connection.missing_connect_packages", list)
    monkeypatch.setattr(SparkSession, "builder", SimpleNamespace(remote=refused))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}/;token="
        with pytest.raises(ConnectionFailed) as failed:
            remote(f"{url}SECRET==")
    assert str(failed.value).startswith(f"the server at {url}.. gives no session: Parameter 'token=..' should be ")


# -- the doctor


def test_without_java_the_doctor_says_what_to_do_and_goes_on(tmp_path: Path) -> None:
    done = run("doctor", JAVA_HOME="/nowhere", STREAMTIME_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    found = {line[10:27].strip(): line[:8].strip() for line in done.stdout.splitlines() if line[:8].strip() and line[8:10] == "  "}
    assert found["Java"] == found["Delta jars"] == found["local session"] == "FAILED"
    assert found["Python"] == found["pyspark"] == found["pyarrow"] == found["cache folder"] == "ok"
    assert found["Delta table"] == "skipped"
    assert "JAVA_HOME is /nowhere, which has no bin/java" in done.stdout
    assert "-> " in done.stdout
    said = run("doctor", "--format", "json", JAVA_HOME="/nowhere", STREAMTIME_CACHE=str(tmp_path))
    findings = [json.loads(line) for line in said.stdout.splitlines()]
    assert {f["name"]: f["state"] for f in findings}["Java"] == "failed"


def test_the_probes_of_a_session_pass_here(spark: SparkSession) -> None:
    found = {name: doctor.check(name, lambda probe=probe: probe(spark)) for name, probe, _ in doctor.LOCAL}  # type: ignore[misc]
    assert [finding for finding in found.values() if finding.state != "ok"] == []
    (page,) = (block.text for block in blocks((ROOT / "docs" / "troubleshooting.md").read_text()) if "tests/catalog/shell" in block.unrun)
    shown = {line[10:29].strip(): line[29:] for line in page.splitlines()}
    assert list(shown) == ["Java", "pyspark", "functions in SQL", "Delta table"]
    assert {name: finding.says for name, finding in found.items() if name in shown} == {name: shown[name] for name in list(shown)[2:]}


def test_whatever_a_check_raises_is_its_finding() -> None:
    def bad() -> str:
        raise OSError("no such thing")

    assert doctor.check("x", bad) == doctor.Finding("x", "failed", "no such thing")
    assert doctor.check("x", bad, optional=True).state == "missing"
    assert doctor.check("x", lambda: doctor.installed("no-such-package")).todo == doctor.INSTALL


def test_the_doctor_looks_for_all_that_the_pack_requires() -> None:
    """As pyproject.toml has it, and each can be imported here."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in required}
    found = doctor.requirements()
    assert {*found, "pyspark"} == names
    for name, wanted in found.items():
        assert doctor.check(name, lambda name=name, wanted=wanted: doctor.required(name, wanted)).state == "ok"  # type: ignore[misc]
    assert doctor.check("numpy", lambda: doctor.required("numpy", "numpy<1")).todo == "pip install 'numpy<1'"


@pytest.mark.parametrize(
    ("version", "requirement", "holds"),
    [
        ("2.3.3", "pandas<3,>=2.2", True),
        ("3.0", "pandas<3,>=2.2", False),
        ("4.2.0", "x==4.2", True),
        ("4.2.1", "x==4.2.0", False),
        ("4.2.1", "x~=4.2.0", True),
        ("4.3.0", "x~=4.2.0", False),
        ("1.0", "x", True),
    ],
)
def test_versions_are_compared_as_pip_does(version: str, requirement: str, holds: bool) -> None:
    assert doctor.satisfies(version, requirement) is holds


# -- the whole program, with Spark


@pytest.mark.long("tests/catalog/plain/test_compiling.py")
def test_statements_are_compiled_from_stdin_or_refused(tmp_path: Path) -> None:
    call = "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts{});"
    written = {
        name: block.text.replace(", page STRING", "")
        for name in ("install.md", "plain.md")
        for block in blocks((ROOT / "docs" / name).read_text())
        if "tests/catalog/shell" in block.unrun
    }
    assert written["install.md"] == written["plain.md"].replace(" --check", "")
    (tmp_path / "daily.sql").write_text(call.format(""))
    command = written["plain.md"].replace("streamtime", shlex.join(STREAMTIME))
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    plain = "row_number() OVER ( PARTITION BY `user_id`"  # in whichever lines
    assert plain in " ".join((tmp_path / "plain.sql").read_text().split())
    clicks = ("--table", "clicks=user_id STRING, ts TIMESTAMP")
    limit = call.replace("DEDUPLICATE", "SUPPRESS_UNTIL_TIME_LIMIT").format(", max_records => 9, when_full => 'emit_early'")
    done = run("compile", *clicks, stdin=limit)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streamtime: SUPPRESS_UNTIL_TIME_LIMIT: this call has no plain SQL: it needs a kernel")
    assert run("compile", "nowhere.sql").returncode == 1
    (tmp_path / "columns.json").write_text('{"clicks": "user_id STRING, ts TIMESTAMP"}')
    columns = ("--tables", str(tmp_path / "columns.json"), "--table", "other=k INT")
    done = run("compile", *columns, "--conf", "spark.sql.ansi.enabled=false", stdin=call.format(""))
    assert plain in " ".join(done.stdout.split()), done.stderr
    assert "under spark.sql.ansi.enabled = false" in done.stdout


@pytest.mark.short("the command, as a process")
def test_a_script_goes_to_its_first_failure_and_says_which_it_is(tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text(
        "CREATE TABLE t USING delta AS SELECT id, CAST(NULL AS STRING) AS nil FROM range(3);\n"
        "SELECT * FROM t ORDER BY id;\n\n-- wrong\nSELECT * FROM\n  nowhere;\nSELECT 4;"
    )
    done = run("sql", "--cores", "2", "-f", str(script), "--format", "csv")
    assert done.stdout == "id,nil\n0,\n1,\n2,\n"
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith("3 rows, ")
    assert f"statement 3 of 4, {script}, line 5 failed:" in done.stderr
    assert done.stderr.endswith("    nowhere\n    ^\n1 more statement was not run.\n")
    for noise in ("Traceback", "WARNING", "\tat ", "Starting"):
        assert noise not in done.stderr


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "STREAMTIME_HISTORY": str(tmp_path / "history")}


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_the_shell_in_a_terminal(environment: dict[str, str], terminals: list[Terminal], tmp_path: Path) -> None:
    command = [*STREAMTIME, "sql", "--cores", "2", "--warehouse", str(tmp_path / "warehouse")]
    shell = Terminal(command, environment)
    terminals.append(shell)
    shell.expect("streamtime>")

    shell.type("CREATE TABLE kept AS\rSELECT 1 AS one,\rnow() AS ts, CAST(NULL AS INT) AS nil;\r")
    assert "...>" in shell.answer("done, ")

    shell.type("SELECT * FROM nowhere;\r")
    assert "    ^\n" in shell.answer("    ^\n")
    assert "Traceback" not in shell.screen()

    shell.type("SELECT * FROM DEDUPLICATE(TABLE(kept) PARTITION BY one ORDER BY ts, out\t")
    shell.expect("put =>")  # behind what was typed, which may have been drawn before
    shell.type("'metrics');\r")
    shell.answer("rows, ")

    shell.type("SELECT sum(sqrt(id)) FROM range(1000000000000);\r")
    shell.expect("Ctrl-C cancels")
    began = time.monotonic()
    shell.type("\x03")
    shell.answer("cancelled after ")
    assert time.monotonic() - began < 20
    shell.type("SELECT 6 * 7 AS answer;\r")
    assert " 42\n" in shell.answer("1 row, ")

    shell.type("SELECT 'half a thou\x03limit 3\r")
    shell.answer("limit 3\n")
    shell.type("SELECT id FROM range(9);\r")
    shell.answer("first 3 rows, there are more (`limit 30` or `limit none` shows them)")
    shell.type("\x04")
    assert shell.ends() == 0

    again = Terminal(command, environment)
    terminals.append(again)
    again.expect("streamtime>")
    again.type("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\r")  # five up: before the query, the limit, the answer and the long query
    assert "output => 'metrics'" in again.answer("rows, ")
    again.type("SELECT nil, one FROM kept;\r")
    assert "NULL" in again.answer("1 row, ")
    again.type("SELECT one FROM kept WHERE ni\t")
    again.expect("l", prompt="l")  # what was typed may have been drawn before
    again.type("\r\r\\q\r")  # in the middle of a statement
    assert again.ends() == 0

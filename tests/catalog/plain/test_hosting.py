"""A script for Databricks: plain SQL, and functions for Unity Catalog. Their Python, run here as ordinary UDTFs, gives what the calls give."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from support.inputs import nasty

from streamtime.plain.hosting import HEAD, exported
from streamtime.shell import connection
from streamtime.shell.cli import main

CREATED = re.compile(
    r"(CREATE OR REPLACE FUNCTION (.+)\(input TABLE\)\nRETURNS TABLE \((.*)\)\nLANGUAGE PYTHON\nHANDLER 'Hosted'\nENV.*\nAS \$\$\n((?s:.*?))\$\$);\n"
)
KERNELS = [  # calls that have no plain SQL
    "SUPPRESS_UNTIL_TIME_LIMIT(TABLE({nasty}) PARTITION BY ({k}, {d}) ORDER BY ({off}, {id}), wait => INTERVAL 10 SECONDS, time => {time}, max_records => 3, when_full => 'emit_early')",
    "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(SELECT *, {u} AS `it's the end`, named_struct('A$$b c', {v}) AS `$$` FROM nasty) PARTITION BY ({k}, {s}) ORDER BY {off} DESC NULLS LAST, "
    "time => '`it\\'s the end`', wait => INTERVAL 5 SECONDS, max_records => 5, when_full => 'emit_early', output => 'all')",
    "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(nasty) PARTITION BY {k} ORDER BY {t}, wait => INTERVAL 5 SECONDS, max_records => 7, when_full => 'emit_early')",
]


def calls(names: nasty.Names) -> list[str]:
    quoted = names.quoted
    return [text.format(**quoted, nasty="nasty", time=names.option("{t}")) for text in KERNELS]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_unity_catalog_would_host_gives_what_the_call_gives(spark: SparkSession, seed: int) -> None:
    """Odd names with seed 1; NULL in every role, ties, a hot key."""
    _, _, names = nasty.drifted(spark, seed, 80)
    made = [f"SELECT * FROM {call}" for call in calls(names)]
    script = exported(spark, ";\n".join(made), schema="main.`s p`", wheel="/Volumes/a/it's.whl")
    assert script.startswith(HEAD)
    functions = CREATED.findall(script)
    assert len(functions) == len(made)
    statements = CREATED.sub("", script.removeprefix(HEAD)).strip().removesuffix(";").split(";\n")
    for number, (call, (created, name, columns, body), statement) in enumerate(zip(made, functions, statements, strict=True)):
        parsed(created, statement)
        space: dict[str, object] = {}
        exec(body, space)
        local = f"hosted_{seed}_{number}"
        spark.udtf.register(local, udtf(space["Hosted"], returnType=columns, useArrow=False))  # type: ignore[arg-type]
        assert name in statement
        found = spark.sql(statement.replace(name, local))
        asked = spark.sql(call)
        assert found.schema.simpleString() == asked.schema.simpleString()
        rows = Counter(map(str, asked.collect()))
        assert Counter(map(str, found.collect())) == rows
        assert rows
        spark.sql(f"DROP TEMPORARY FUNCTION {local}")


def parsed(created: str, statement: str) -> sqlglot.Expression:
    """By sqlglot's dialect, as they are but for what it does not know: a parameter that is a TABLE, and the clauses of an argument that is one."""
    function = sqlglot.parse_one(created.replace("(input TABLE)", "(input INT)"), dialect="databricks")
    assert isinstance(function, sqlglot.exp.Create)
    assert function.args["kind"] == "FUNCTION"
    before, clauses = re.split(r"\) (?:PARTITION BY \(|WITH SINGLE PARTITION )", statement)
    assert " ORDER BY " in f" {clauses}"
    asked = sqlglot.parse_one(f"{before}))", dialect="databricks")
    assert [call.name for call in asked.find_all(sqlglot.exp.Anonymous) if "suppress" in call.name.lower()]
    return asked


def test_a_view_is_exported_as_a_view_over_a_hosted_function_or_over_plain_sql(spark: SparkSession) -> None:
    _, _, names = nasty.drifted(spark, 1, 60)
    hosted = f"SELECT * FROM {calls(names)[2]}"
    plain = names.sql("SELECT * FROM DEDUPLICATE(TABLE(nasty) PARTITION BY {k} ORDER BY {t})")
    script = exported(spark, f"CREATE OR REPLACE TEMP VIEW made_hosted AS {hosted};\nCREATE OR REPLACE TEMP VIEW made_plain AS\n{plain}")
    ((created, name, columns, body),) = CREATED.findall(script)
    first, second = CREATED.sub("", script.removeprefix(HEAD)).strip().removesuffix(";").split(";\n")
    for statement in (parsed(created, first), sqlglot.parse_one(second, dialect="databricks")):
        assert isinstance(statement, sqlglot.exp.Create)
        assert statement.args["kind"] == "VIEW"
    space: dict[str, object] = {}
    exec(body, space)
    spark.udtf.register("hosted_view", udtf(space["Hosted"], returnType=columns, useArrow=False))  # type: ignore[arg-type]
    spark.sql(first.replace(name, "hosted_view"))
    spark.sql(second)
    for view, call in {"made_hosted": hosted, "made_plain": plain}.items():
        rows = Counter(map(str, spark.sql(call).collect()))
        assert Counter(map(str, spark.table(view).collect())) == rows
        assert rows
        spark.catalog.dropTempView(view)
    spark.sql("DROP TEMPORARY FUNCTION hosted_view")


def test_what_has_plain_sql_is_plain_and_what_neither_can_be_is_refused(spark: SparkSession) -> None:
    _, _, names = nasty.drifted(spark, 0, 10)
    deduplicated = names.sql("SELECT * FROM DEDUPLICATE(TABLE(nasty) PARTITION BY {k} ORDER BY {t})")
    script = exported(spark, f"{deduplicated};\nSELECT * FROM {calls(names)[2]}")
    assert script.count("CREATE OR REPLACE FUNCTION main.streamtime.suppress_until_time_limit_2(") == 1
    assert "row_number()" in script.split("CREATE OR REPLACE FUNCTION")[0]
    for option, problem in {"output => 'metrics'": "'metrics' is not possible", "max_record => 1": "Did you mean `max_records`"}.items():
        with pytest.raises(AnalysisException, match=problem):
            exported(spark, f"SELECT * FROM {calls(names)[0][:-1]}, {option})")


def test_in_a_shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.Connection, "close", lambda _opened: None)  # the session is that of all tests
    monkeypatch.setattr(connection, "local", lambda **_given: connection.Connection(spark, spark.sql, remote=False))
    query = tmp_path / "query.sql"
    query.write_text("SELECT * FROM VERSIONS(TABLE(log) PARTITION BY k ORDER BY at)")
    assert main(["export", "databricks", str(query), "--table", "log=k STRING, at TIMESTAMP", "--schema", "main.shop"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(HEAD)
    assert "VERSIONS(TABLE(log)" in said
    assert main(["export", "databricks", str(query), "--table", "log=k STRING"]) == 1
    assert "at" in capsys.readouterr().err

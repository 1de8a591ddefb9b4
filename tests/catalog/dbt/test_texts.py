"""What dbt's statements, errors and files come to; no JVM, no server."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dbt_common.clients.jinja import get_environment
from support import ROOT

from streamtime.dbt.adapter import Credentials, Remote, said
from streamtime.dbt.compiled import PACK, Server, calls
from streamtime.dbt.project import compile_project, configs, variables
from streamtime.shell.cli import main
from streamtime.sql.call.errors import CallError

LINE = "DEDUPLICATE, `withn`: no such option. Did you mean `within`?; line 7 pos 14"
THRIFT = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: [_LEGACY_ERROR_TEMP_3102] org.apache.spark.sql.AnalysisException: {}\n"
    "\tat org.apache.spark.sql.hive.thriftserver.HiveThriftServerErrors$.runningQueryError(HiveThriftServerErrors.scala:43)"
)


class Asked:
    """A connection, and what it was asked."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]]) -> None:
        self.answers, self.texts = answers, list[str]()
        self.handle = self

    def cursor(self) -> Asked:
        return self

    def execute(self, text: str, bindings: Any = None) -> None:
        self.texts.append(text)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.answers.get(self.texts[-1], [])

    def close(self) -> None:
        pass


@pytest.mark.parametrize("wrapped", [LINE, THRIFT.format(LINE), f"java.lang.IllegalArgumentException: {LINE}"])
def test_an_error_of_a_call_is_its_line_alone(wrapped: str) -> None:
    assert said(wrapped) == LINE


def test_other_errors_stay_as_they_are() -> None:
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found; line 1 pos 14\nmore"
    assert said(text) == text


def test_a_time_that_is_a_string_gets_the_hint_for_seeds() -> None:
    line = "DEDUPLICATE, ORDER BY: expected TIMESTAMP, TIMESTAMP_NTZ or DATE as event time, got STRING (`ts`). CAST it.; line 1 pos 14"
    assert said(THRIFT.format(line)).startswith(line)
    assert "column_types" in said(line)
    line = (
        "AS_OF_JOIN, property `streamtime.time` of t: expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got {} (`v`).; line 1 pos 14"
    )
    assert said(THRIFT.format(line.format("STRING"))).startswith(line.format("STRING"))
    assert "column_types" in said(THRIFT.format(line.format("STRING")))
    assert said(THRIFT.format(line.format("INT"))) == line.format("INT")


def versioned_table(known: dict[str, Any]) -> Any:
    """The macros of its file, which know these."""
    package = Path(importlib.import_module("streamtime").__file__ or "").parent / "dbt" / "package"
    text = (package / "macros" / "materializations" / "versioned_table.sql").read_text()
    own: Any = get_environment(None).from_string(text).make_module()
    return (
        get_environment(None).from_string(text).make_module({"streamtime": SimpleNamespace(as_literal=own.dbt_macro__as_literal)} | known)
    )


def statements(told: dict[str, str], keys: list[str], time: str, **settings: str | None) -> list[str]:
    """What brings a table that declares these to what a model says, or why nothing does."""
    texts = list[str]()
    rows = [(f"streamtime.{name}", value) for name, value in told.items()] + [("delta.minReaderVersion", "1")]
    known = {
        "run_query": {"show tblproperties t": SimpleNamespace(rows=rows)}.get,
        "statement": lambda _, caller: texts.append(caller().strip()) or "",
        "exceptions": SimpleNamespace(raise_compiler_error=texts.append),
    }
    versioned_table(known).dbt_macro__declare_again("t", keys, time, settings)
    return texts


def test_a_versioned_table_follows_what_its_model_says() -> None:
    told = {"key": "shop, `a b`", "time": "ts", "grace": "1 day", "deleted": "gone"}
    assert statements(told, ["shop", "`a b`"], "TS", grace="1 day", retention=None, deleted="gone") == []
    assert statements(told, ["shop", "`a b`"], "ts", grace="2 days", retention="9 days", deleted=None) == [
        "alter table t set tblproperties ('streamtime.grace' = '2 days')",
        "alter table t set tblproperties ('streamtime.retention' = '9 days')",
        "alter table t unset tblproperties if exists ('streamtime.deleted')",
    ]
    assert statements(told, ["shop", "`a b`"], "ts", grace="1 day", deleted="status = 'sold' OR why = '\\'") == [
        r"alter table t set tblproperties ('streamtime.deleted' = 'status = \'sold\' OR why = \'\\\'')"
    ]
    assert statements(told, ["shop"], "at", grace="1 day", deleted="gone") == [
        "versioned_table, `key`: the model says shop, and t declares shop, `a b`. Change it back, or use --full-refresh.",
        "versioned_table, `time`: the model says at, and t declares ts. Change it back, or use --full-refresh.",
    ]
    assert statements({}, ["k"], "ts")[0].startswith("versioned_table, `key`: the model says k, and t declares none.")
    assert statements({"key": "*********(redacted)", "time": "ts"}, ["token"], "ts") == []


def test_a_versioned_table_gets_the_columns_that_only_its_model_has() -> None:
    texts = list[str]()
    described = [("ID", "bigint"), ("new `one`", "map<string,int>"), ("", None), ("# Partition Information", "")]
    known = {
        "run_query": {"describe table rows": SimpleNamespace(rows=described)}.get,
        "adapter": SimpleNamespace(get_columns_in_relation=lambda _: [SimpleNamespace(name="id"), SimpleNamespace(name="ts")]),
        "statement": lambda _, caller: texts.append(caller().strip()) or "",
    }
    versioned_table(known).dbt_macro__add_columns("t", "rows")
    assert texts == ["alter table t add columns (`new ``one``` map<string,int>)"]


@pytest.mark.parametrize(
    ("time", "kind", "is_wrong"),
    [("at", "timestamp", False), ("AT", "timestamp_ntz", False), ("`ö ``x`", "date", False), ("at", "string", True), ("`ö ``x`", "string", True),
     ("at", "int", True), ("at", "string collate UTF8_LCASE", True)],
)  # fmt: skip
def test_a_versioned_table_takes_no_time_that_is_none(time: str, kind: str, is_wrong: bool) -> None:
    column = time.strip("`").replace("``", "`").lower()
    described, raised = [("id", "string"), (column, kind), ("", None), ("# Partition Information", "")], list[str]()
    known = {
        "run_query": {"describe table rows": SimpleNamespace(rows=described)}.get,
        "exceptions": SimpleNamespace(raise_compiler_error=raised.append),
    }
    versioned_table(known).dbt_macro__time_is_a_time("rows", time)
    assert len(raised) == is_wrong
    for text in raised:
        assert text.startswith(
            f"versioned_table, `time`: expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got {kind.upper()} (`{column}`). CAST it."
        )
        assert (f"seeds: {{+column_types: {{{column}: timestamp}}}}" in text) is kind.startswith("string")


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ('/* {"node_id": "model.shop.deduplicate"} */ select * from versions', False),
        ("select * from deduplicate (table(t) partition by k order by ts)", True),
        ("create view v as select * from VERSIONS(TABLE(t) ORDER BY ts)", True),
        ("comment on table t is 'one of many'", False),
        ("select * from a timestamp as of '2026-01-01'", False),
        ("select * from a join b for system_time as of a.ts on a.k = b.k", True),
        ("select * from a right asof join b match_condition (a.ts >= b.ts) on a.k = b.k", True),  # which is refused, in words
        ("", False),
    ],
)
def test_only_statements_that_may_have_a_call_are_looked_at(text: str, has: bool) -> None:
    assert calls(text) is has


def test_a_server_with_the_pack_gets_statements_as_they_are_and_is_asked_once() -> None:
    asked = Asked({PACK: [("function_catalog",)]})
    server, text = Server(asked), "select * from DEDUPLICATE(TABLE(t) ORDER BY ts)"
    assert [server.understands(t) for t in ("select 1", text, text)] == ["select 1", text, text]
    assert asked.texts == [PACK]


def test_rows_of_a_seed_are_not_read_for_calls() -> None:
    asked = Asked({})
    Remote(asked).execute("insert into t values (%s)", ["DEDUPLICATE("])
    assert asked.texts == ["insert into t values (%s)"]


def test_a_session_needs_no_host_and_a_server_does() -> None:
    assert Credentials(method="session", schema="s").host == "this process"
    with pytest.raises(Exception, match="`host`"):
        Credentials(method="thrift", schema="s")


def test_dbt_finds_the_adapter_by_its_type() -> None:
    assert importlib.import_module("dbt.adapters.streamtime").Plugin.credentials is Credentials
    assert importlib.import_module("dbt.adapters.streamtime.__version__").version == importlib.import_module("streamtime").__version__


def test_importing_the_pack_imports_no_dbt() -> None:
    probe = "import sys, streamtime, streamtime.shell.cli; print(any(m == 'dbt' or m.startswith('dbt.') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"


def test_config_blocks_are_kept_as_written() -> None:
    text = "{# {{ config(x) }} #}\n{{ config(materialized='table', meta={'a': '}}'}) }}\nselect {{ var('config(') }}\n{{- config(tags=['b']) -}} 1"
    assert configs(text) == ["{{ config(materialized='table', meta={'a': '}}'}) }}", "{{- config(tags=['b']) -}}"]
    assert configs("select 1") == []


@pytest.mark.parametrize("text", ["[1]", "{a: [", "word"])
def test_variables_are_names_and_values(text: str) -> None:
    assert variables("{day: 2026-01-01, n: 3}").keys() == {"day", "n"}
    with pytest.raises(CallError, match=r"dbt compile, `--vars`: .*'\{day: 2026-01-01\}'"):
        variables(text)


def never() -> Any:
    raise AssertionError("no Spark is needed to see that")


def test_what_is_no_project_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"there is no dbt_project.yml in .* --project-dir"):
        compile_project(never, tmp_path, tmp_path / "out")
    (tmp_path / "dbt_project.yml").write_text("name: x\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    with pytest.raises(CallError, match=r"`--out`: .* has files that are no dbt project"):
        compile_project(never, tmp_path, tmp_path / "out")


def test_the_package_is_where_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dbt", "package"]) == 0
    package = Path(capsys.readouterr().out.strip())
    said = yaml.safe_load((package / "dbt_project.yml").read_text())
    assert (said["name"], said["version"]) == ("streamtime", importlib.import_module("streamtime").__version__)
    # A copy, since dbt reads what lies in its package alone, where macros call each other by the package's name
    template, own = package / "macros" / "materializations" / "apply_changes_sql.sql", ROOT / "sql" / "tables" / "apply_changes.sql"
    assert template.read_text() == own.read_text().replace("{{ streamtime_changes(", "{{ streamtime.streamtime_changes(")
    files = {path.stem for path in package.rglob("*.sql")} - {template.stem}
    for path in package.rglob("*.sql"):
        if path == template:
            continue
        assert re.search(rf"{{% (?:macro|test|materialization) {path.stem}\b", path.read_text()), path  # a file is called as what is in it
    page = (ROOT / "docs" / "dbt.md").read_text()
    assert not [name for name in files if name not in page]


def test_what_the_page_shows_is_in_the_example() -> None:
    """Models and profiles of docs/dbt.md, but for the trap, which is wrong, and what the example has no tables for."""
    example = ROOT / "examples" / "dbt_project"
    shown = " ".join((ROOT / "docs" / "dbt.md").read_text().split())
    for model in ("pages", "pages_log"):
        text = re.sub(r"\{[#{].*?[#}]\}", "", (example / "models" / f"{model}.sql").read_text(), count=1, flags=re.DOTALL)
        for line in filter(None, map(str.strip, text.splitlines())):
            assert line.startswith("{{ config") or line in shown, line
    outputs = yaml.safe_load((example / "profiles.yml").read_text())["flights"]["outputs"]
    blocks = re.findall(r"\n +(here|served|bare): (\{.*\})\n", (ROOT / "docs" / "dbt.md").read_text())
    assert {name: yaml.safe_load(text)["type"] for name, text in blocks} == {name: output["type"] for name, output in outputs.items()}
    assert {name: yaml.safe_load(text)["method"] for name, text in blocks} == {name: output["method"] for name, output in outputs.items()}

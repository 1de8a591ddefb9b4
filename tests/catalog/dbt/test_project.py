"""What `streamtime dbt compile` makes of what dbt says of a project: odd names, chains, braces, what cannot be compiled. No dbt, no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtime.dbt.project import COLUMNS, Compiler, Written

CLICKS = {"user id": "string", "ts": "timestamp", "page": "struct<path:string,n:int>"}
CALL = "DEDUPLICATE(TABLE({}) PARTITION BY `user id` ORDER BY ts)"


class Project:
    """A project in a folder, and its manifests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder / "shop", folder / "plain"
        self.first: dict[str, Any] = {}
        self.later: dict[str, str] = {}
        self.sources: dict[str, Any] = {}
        self.known: dict[str, dict[str, str]] = {}
        for place in (self.folder, self.out):
            (place / "models").mkdir(parents=True)

    def source(self, name: str, relation: str, columns: dict[str, str] | None) -> None:
        node = f"source.shop.web.{name}"
        self.sources[node] = {
            "resource_type": "source", "package_name": "shop", "source_name": "web", "name": name, "identifier": name, "relation_name": relation,
        }  # fmt: skip
        if columns is not None:
            self.known[node] = columns

    def model(self, name: str, text: str, raw: str = "", later: str | None = None, reads: tuple[str, ...] = (), **more: Any) -> None:
        kind, path = more.pop("resource_type", "model"), f"models/{name}.sql"
        relation = more.pop("relation_name", f"`main`.`shop`.`{name}`")
        self.first[f"{kind}.shop.{name}"] = {
            "unique_id": f"{kind}.shop.{name}", "resource_type": kind, "package_name": "shop", "name": name, "alias": name,
            "relation_name": relation, "compiled_code": text, "original_file_path": path, "config": {}, "columns": {},
            "depends_on": {"nodes": list(reads)}, **more,
        }  # fmt: skip
        self.later[f"{kind}.shop.{name}"] = text if later is None else later
        (self.folder / path).write_text(raw)

    def compiled(self, spark: SparkSession) -> Written:
        answer = {"name": COLUMNS, "resource_type": "analysis", "compiled_code": json.dumps({"columns": self.known, "settings": {}})}
        nodes = self.first | {"analysis": answer | {"unique_id": "analysis", "package_name": "shop"}}
        later = {name: node | {"compiled_code": self.later.get(name, "")} for name, node in nodes.items()}
        metadata = {"project_name": "shop"}
        compiler = Compiler(spark, {"nodes": nodes, "sources": self.sources, "metadata": metadata}, {"nodes": later})
        try:
            return compiler.written(self.folder, self.out)
        finally:
            compiler.close()

    def file(self, name: str) -> str:
        return (self.out / "models" / f"{name}.sql").read_text()


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.source("odd clicks", "`main`.`web`.`odd clicks`", CLICKS)
    return project


def test_relations_become_ref_source_and_this_again_and_chains_need_no_table(spark: SparkSession, shop: Project) -> None:
    shop.model("a_second", f"select * from {CALL.format('`main`.`shop`.`first`')}", reads=("model.shop.first",))  # read before, by name
    shop.model(
        "first",
        f"select *, '{{{{ no }}}} {{% Jinja #}}' as note from {CALL.format('`main`.`web`.`odd clicks`')} -- `main`.`shop`.`first`",
        raw="{{ config(tags=['x']) }}\nselect ..",
    )
    assert shop.compiled(spark) == Written(["models/first.sql", "models/a_second.sql"], {})
    first, second = shop.file("first"), shop.file("a_second")
    assert first.startswith("{{ config(tags=['x']) }}\nselect *, '{{ '{{' }} no }} {{ '{%' }} Jinja #}' as note from (\n")
    assert first.count("{{ source('web', 'odd clicks') }}") == 2  # in the comment, and where it is read
    assert first.endswith("-- {{ this }}\n")
    assert "{{ ref('first') }}" in second
    assert "`note`" in second
    for text in (first, second):
        assert "streamtime_ref" not in text
        assert "`main`" not in text
    assert not [row for row in spark.sql("SHOW SCHEMAS").collect() if row[0].startswith("streamtime_ref")]


def test_an_incremental_model_asks_where_it_is_built_which_of_two_it_is(spark: SparkSession, shop: Project) -> None:
    slice_ = "select * from `main`.`web`.`odd clicks` where ts > (select max(ts) from `main`.`shop`.`log`)"
    shop.model("log", f"select * from {CALL.format('`main`.`web`.`odd clicks`')}", later=f"select * from {CALL.format(slice_)}")
    assert shop.compiled(spark).refused == {}
    head, _, rest = shop.file("log").partition("{% if is_incremental() %}\n")
    later, _, first = rest.partition("\n{% else %}\n")
    assert head == "-- depends_on: {{ source('web', 'odd clicks') }}\n"
    assert "from {{ this }}" in later
    assert "this" not in first
    assert first.endswith("\n{% endif %}\n")


def test_what_cannot_be_compiled_is_named_with_the_names_of_the_warehouse(spark: SparkSession, shop: Project) -> None:
    shop.source("dark", "web.dark", None)
    shop.model("wrong", f"select * from {CALL.format('`main`.`web`.`odd clicks`').replace(' ts)', ' ts, withn => 1)')}")
    shop.model("unknown", f"select * from {CALL.format('web.dark')}")
    shop.model("kernel", f"select * from {CALL.format('`main`.`web`.`odd clicks`').replace('DEDUPLICATE', 'AS_OF_JOIN')}")
    shop.model("snap", f"select * from {CALL.format('`main`.`web`.`odd clicks`')}", resource_type="snapshot")
    shop.model("gone", f"select * from {CALL.format('`main`.`web`.`nowhere`')}")
    done = shop.compiled(spark)
    assert done.compiled == []
    assert "`withn`: no such option. Did you mean `within`?" in done.refused["models/wrong.sql"]
    assert "nothing says which columns web.dark has. Build it once" in done.refused["models/unknown.sql"]
    assert "data_type" in done.refused["models/unknown.sql"]
    assert "AS_OF_JOIN" in done.refused["models/kernel.sql"]
    assert "a call cannot stand in a snapshot's file" in done.refused["models/snap.sql"]
    assert ("`main`.`web`" if spark.version < "4.1" else "`main`.`web`.`nowhere`") in done.refused["models/gone.sql"]  # in Spark's words
    assert "streamtime_ref" not in "".join(done.refused.values())


def test_columns_come_from_yaml_where_no_table_is_and_other_models_stay_untouched(spark: SparkSession, shop: Project) -> None:
    typed = {name: {"data_type": kind} for name, kind in CLICKS.items()}
    shop.model("only_there", "select warehouse_function(1) as x", columns=typed)
    shop.model("reads", f"select * from {CALL.format('`main`.`shop`.`only_there`')}", reads=("model.shop.only_there",))
    shop.model("ephemeral", "select 1 as deduplicate", relation_name=None)
    assert shop.compiled(spark) == Written(["models/reads.sql"], {})
    assert "`page`" in shop.file("reads")
    assert [path.name for path in (shop.out / "models").iterdir()] == ["reads.sql"]

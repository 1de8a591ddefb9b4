"""Who runs dbt: the example's project, in this process, against a server without the pack, and against one that has it.

Says what came, a line of JSON for each way; in this process also what came of projects of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbt.adapters.spark.connections import PyhiveConnectionWrapper
from dbt.cli.main import dbtRunner
from jvm import say

PROJECT = Path(__file__).parents[3] / "examples" / "dbt_project"
MODELS = ("pages", "pages_log", "held_back", "hourly", "on_call", "shifts", "rota", "pages_by_team")
sys.path.insert(0, str(PROJECT))
import build  # noqa: E402

WRONG = "select * from DEDUPLICATE(TABLE({{ ref('pages') }}) PARTITION BY origin ORDER BY departed, withn => INTERVAL 1 HOUR)"
TEXT = (
    "select * from DEDUPLICATE(TABLE(select cast(departed as string) as at, origin from {{ ref('pages') }}) "
    "PARTITION BY origin ORDER BY at, within => INTERVAL 1 HOUR)"
)


def asks_at_once() -> None:
    """dbt-spark asks once a second, at the most often, whether a statement is done, which on few rows is most of what one takes."""
    made = PyhiveConnectionWrapper.__init__

    def init(self: PyhiveConnectionWrapper, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self.poll_interval = 0.05

    PyhiveConnectionWrapper.__init__ = init


def run(*arguments: str) -> Any:
    return dbtRunner().invoke(list(arguments))


def executable(*arguments: str) -> bool:
    """The same by the command `dbt`, in a process of its own."""
    return subprocess.run([Path(sys.executable).parent / "dbt", *arguments], check=False).returncode == 0


def refused(target: str, text: str) -> str:
    return str(run("show", "--quiet", "--target", target, "--inline", text).exception)


def rows(query: Callable[[str], list[Any]], schema: str) -> dict[str, list[str]]:
    return {m: sorted(row[0] for row in query(f"select to_json(struct(*)) from {schema}.{m}")) for m in MODELS}


def here() -> dict[str, Any]:
    assert build.main([]) == 0
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    found = rows(lambda text: spark.sql(text).collect(), "flights")
    call = "DEDUPLICATE(TABLE({}) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR)"
    side = "select * from flights.alerts where departed {} timestamp_ntz'" + build.DAYS[0] + "'"
    ((alone,),) = (
        spark.sql(" union all ".join(f"select * from {call.format(side.format(s))}" for s in ("<", ">="))).selectExpr("count(*)").collect()
    )
    told = {"refused": [refused("here", WRONG), refused("here", TEXT)], "docs": documented(), "slices alone": alone}
    return {"rows": found, "by day": by_day(spark), **told}


def by_day(spark: Any) -> list[Any]:
    """What the runs of the maintained model were, how many rows it has, and how many that its query over all pages has not."""
    from streamtime import receipts

    whole = "select origin, date(departed), count(*), max(delay_minutes) from flights.pages group by origin, date(departed)"
    schema, model = "flights", "pages_by_day"
    table = f"{schema}.{model}"
    counts = [spark.sql(f"select * from {table} {more}").count() for more in ("", f"except all {whole}")]
    return [[receipt.way for receipt in reversed(receipts(spark, table))], *counts, spark.sql(whole).count()]


CHANGES = """
select id, `full name`, {{ var('number', 'batch') }} as batch, at, op, at as change_time from values
  (1, 'ann', 1, timestamp'2026-01-01 10:00:00', 'I'), (2, 'bob', 1, timestamp'2026-01-01 10:00:00', 'I'),
  (3, 'cyd', 1, timestamp'2026-01-01 10:05:00', 'I'), (1, 'Ann', 1, timestamp'2026-01-01 10:09:00', 'U'),
  (2, 'bob', 1, timestamp'2026-01-01 10:30:00', 'D'), (null, 'nobody', 1, timestamp'2026-01-01 10:30:00', 'I'),
  (2, 'old bob', 2, timestamp'2026-01-01 10:20:00', 'U'), (3, 'Cyd', 2, timestamp'2026-01-01 11:00:00', 'U'),
  (4, 'dee', 2, timestamp'2026-01-01 11:00:00', 'I'), (1, 'ann late', 2, timestamp'2026-01-01 10:04:00', 'U')
  as changes(id, `full name`, batch, at, op) where batch = {{ var('batch') }}
"""

# A seed in which one time is written otherwise than the others, and what reads it: for dbt its times are text
SEED = "id,at,on_duty\n1,2026-01-01 10:00:00,ann\n2,01.01.2026 11:00,bob\n"
ODD = {
    "odd_versions": "{{ config(materialized='versioned_table', key='id', time='at') }} select * from {{ ref('odd_times') }}",
    "odd_call": "{{ config(materialized='table') }} select * from VERSIONS(TABLE({{ ref('odd_times') }}) PARTITION BY id ORDER BY at)",
}

MAINTAINED = """
{{ config(materialized='maintained', policy='incremental',
          pre_hook="alter table {{ ref('people_1') }} set tblproperties (delta.enableChangeDataFeed = true)") }}
select substr({{ var('named', '`full name`') }}, 1, 1) as initial, count(*) as n from {{ ref('people_1') }} group by 1
"""


def changes(folder: Path) -> dict[str, list[str]]:
    """Changes merged into tables, run by run: one deleted key's change, and one of the history, come late. A table that follows one of them."""
    from pyspark.sql import SparkSession

    import streamtime

    (folder / "models").mkdir(parents=True)
    said = "name: people\nprofile: flights\nversion: '1.0'\nflags: {send_anonymous_usage_stats: false}\nseeds: {+file_format: delta}\n"
    (folder / "dbt_project.yml").write_text(said)
    (folder / "packages.yml").write_text(f"packages: [{{local: {PROJECT.parents[1] / 'catalog' / 'dbt' / 'package'}}}]\n")
    for scd in (1, 2):
        config = f"materialized='apply_changes', keys='id', sequence_by=['at'], deleted=\"op = 'D'\", scd=var('scd', {scd})"
        (folder / "models" / f"people_{scd}.sql").write_text(f"{{{{ config({config}) }}}}{CHANGES}")
    (folder / "models" / "initials.sql").write_text(MAINTAINED)
    (folder / "seeds").mkdir()
    (folder / "seeds" / "odd_times.csv").write_text(SEED)
    for name, text in ODD.items():
        (folder / "models" / f"{name}.sql").write_text(text)
    where = ["--project-dir", str(folder)]
    assert run("deps", "--quiet", *where).success
    for batch in (1, 2, 2):
        built = run("build", *where, "--vars", json.dumps({"batch": batch}), *(["--exclude", "odd_times+"] if batch == 1 else [])).result
    odd = {r.node.name: r.message for r in built if r.status == "error"}
    spark = SparkSession.active()
    bounds = {1: "", 2: ", ' ', date_format(valid_from, 'HH:mm'), '-', date_format(valid_to, 'HH:mm')"}
    texts = {scd: f"select concat_ws('', id, ' ', `full name`{b}) from flights.people_{scd}" for scd, b in bounds.items()}
    texts |= {"initials": "select concat(initial, ' ', n) from flights.initials"}
    ways = [receipt.way for receipt in reversed(streamtime.receipts(spark, "flights.initials"))]
    found = {str(name): sorted(row[0] for row in spark.sql(text).collect()) for name, text in texts.items()}
    spark.sql("drop table flights.people_1__deleted")
    others = [
        run("run", *where, "--select", "people_1", "people_2", "--vars", json.dumps({"batch": 2} | more)).result
        for more in ({}, {"scd": 1}, {"scd": 2}, {"number": "batch + 0.5D"})
    ]
    fits = [[str(r.message) if r.status == "error" else str(r.status) for r in sorted(one, key=lambda r: r.node.name)] for one in others]
    found["kept"] = spark.table("flights.people_1").columns
    refreshed = ("run", *where, "--select", "initials", "--full-refresh", "--vars")
    (wrong,) = run(*refreshed, json.dumps({"batch": 2, "named": "nobody"})).result
    left = spark.table("flights.initials").count()
    (right,) = run(*refreshed, json.dumps({"batch": 2})).result
    found["refreshed"] = [str(wrong.message), str(left), str(right.status), streamtime.receipts(spark, "flights.initials")[0].way]
    return found | {"ways": ways, "odd": odd, "fits": fits, "built": sorted(r.node.name for r in built if r.status == "success")}


# What the models of docs/dbt.md read, of which there is more at the second run
READ = {
    "alerts": "{{ config(materialized='view') }} select * from values (1, 'JFK', timestamp'2026-01-01 10:00:00', 1), "
    "(2, 'JFK', timestamp'2026-01-01 10:30:00', 1), (3, 'LGA', timestamp'2026-01-01 10:40:00', 1), (4, 'JFK', timestamp'2026-01-01 10:50:00', 2), "
    "(5, 'LGA', timestamp'2026-01-01 13:00:00', 2) as t(flight_id, origin, departed, run) where run <= {{ var('run') }}",
    "held_back": "select flight_id, origin, departed from DEDUPLICATE(TABLE({{ ref('alerts') }}) PARTITION BY origin ORDER BY departed, "
    "within => INTERVAL 1 HOUR, output => 'dropped')",
    "price_changes": "select * from values ('tea', timestamp'2026-01-01 09:00:00', 1.0, false), ('tea', timestamp'2026-01-01 11:00:00', 1.2, false), "
    "('mug', timestamp'2026-01-01 09:00:00', 8.0, false), ('mug', timestamp'2026-01-01 10:00:00', null, true) as t(product, ts, price, _deleted)",
    "orders": "{{ config(materialized='table', tblproperties={'delta.enableChangeDataFeed': 'true'}) }} select * from values "
    "('tea', timestamp'2026-01-01 10:00:00', 2), ('tea', timestamp'2026-01-01 12:00:00', 3), ('mug', timestamp'2026-01-01 12:00:00', 1) "
    "as t(product, ts, amount)",
    "customer_changes": "select * from values (1, 'ann', timestamp'2026-01-01 10:00:00', 'I'), (2, 'bob', timestamp'2026-01-01 10:00:00', 'I'), "
    "(2, 'bob', timestamp'2026-01-01 11:00:00', 'D'), (1, 'Ann', timestamp'2026-01-01 12:00:00', 'U') as t(id, name, updated_at, op)",
}


def page(folder: Path) -> dict[str, Any]:
    """The project of docs/dbt.md: its profile, its models, its tests and its seeds, as they are written. And built by the command `dbt`, in
    a process of its own."""
    from pyspark.sql import SparkSession

    text = (PROJECT.parents[1] / "docs" / "dbt.md").read_text()
    written = {language: re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for language in ("jinja", "yaml")}
    here, served, bare, tests, seeds = written["yaml"]
    names = ("pages", "trap", "log", "prices", "asked", "applied", "kept")
    models = dict(zip(names, written["jinja"], strict=True)) | READ
    settings = "name: shop\nprofile: flights\nversion: '1.0'\nmodels: {+file_format: delta, +schema: page}\nvars: {run: 2}\n"
    files = {f"models/{name}.sql": model for name, model in models.items()} | {
        "models/tests.yml": tests, "profiles.yml": here + served + bare, "seeds/on_duty.csv": "since,who\n2026-01-01,ann\n",
        "dbt_project.yml": f"{settings}flags: {{send_anonymous_usage_stats: false}}\n{seeds}",
        "packages.yml": f"packages: [{{local: {PROJECT.parents[1] / 'catalog' / 'dbt' / 'package'}}}]\n",
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    alone = shutil.copytree(folder, folder.with_name("alone"))
    (own,) = re.findall(r"(?m)^dbt deps && dbt build$", text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DBT_")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    where = ("--project-dir", str(folder), "--profiles-dir", str(folder))
    with subprocess.Popen(own, shell=True, cwd=alone, env=environment) as process:
        assert run("deps", "--quiet", *where).success
        assert run("build", *where, "--vars", "{run: 1}").success
        assert run("build", *where, "--vars", "{run: 2}", "--select", "alerts", "pages", "held_back", "log", "trap").success
    assert process.returncode == 0
    spark = SparkSession.active()
    queries = {name: f"select * from flights_page.{name}" for name in names} | {"seed": "select typeof(since) from flights.on_duty"}
    found = {name: sorted(" ".join(map(str, row)) for row in spark.sql(query).collect()) for name, query in queries.items()}
    tables = alone.glob("warehouse/tables/*/pages")
    alike = [sorted(" ".join(map(str, row)) for row in spark.read.format("delta").load(str(table)).collect()) for table in tables]
    return found | {"profile": here + served + bare, "by the executable": alike}


def documented() -> dict[str, Any]:
    """What `dbt docs generate` has of the tables that are there, of what reads what, and of the files that there are."""
    assert run("docs", "generate", "--quiet", "--vars", json.dumps({"until": build.DAYS[-1]})).success
    catalog, manifest = (json.loads((PROJECT / "target" / f"{name}.json").read_text()) for name in ("catalog", "manifest"))
    parents, kinds = manifest["parent_map"], ("nodes", "macros", "sources")
    files = {node["original_file_path"] for kind in kinds for node in manifest[kind].values() if node["package_name"] == "flights"}
    names = {"pages_log": "model.flights.pages_log", "pager": "exposure.flights.pager"}
    tables = [node["metadata"]["name"] for node in catalog["nodes"].values()]
    return {"tables": tables, "files": sorted(files)} | {name: parents[node] for name, node in names.items()}


def there(schema: str, target: str) -> dict[str, Any]:
    """What a server holds once the project is built there, and what it says of wrong calls."""
    from pyhive import hive

    with hive.connect("127.0.0.1", int(os.environ["FLIGHTS_PORT"]), username="dbt") as connection, connection.cursor() as cursor:

        def query(text: str) -> list[Any]:
            cursor.execute(text)
            return list(cursor.fetchall())

        found = rows(query, schema)
        cursor.execute(f"show create table {schema}.held_back")
        view = cursor.fetchall()[0][0]
    return {"rows": found, "refused": [refused(target, WRONG), refused(target, TEXT)], "view": view}


def bare(channel: str, folder: Path) -> None:
    """The project on a server without the pack: with calls, which are compiled on their way, and then as a project without."""

    def look() -> None:
        say(channel, json.dumps(there("flights_bare", "bare")))
        say(channel, json.dumps(as_project(folder)))

    assert build.main(["--target", "bare"], look) == 0


def served(channel: str) -> None:
    """The project through `streamtime serve`; once more, a model of it, by the command `dbt`."""

    def look() -> None:
        text = (PROJECT.parents[1] / "docs" / "dbt.md").read_text()
        (words,) = (shlex.split(line) for line in text.splitlines() if line.startswith("dbt build --target served"))
        assert executable(*words[1:], "--select", "pages_by_team", "--vars", json.dumps({"until": build.DAYS[-1]}))
        say(channel, json.dumps(there("flights_served", "served")))

    assert build.main(["--target", "served"], look) == 0


def as_project(folder: Path) -> dict[str, Any]:
    """The project without calls, built by dbt-spark on the server without the pack."""
    from pyspark.sql import SparkSession

    from streamtime.dbt.project import compile_project

    spark, out = SparkSession.active(), folder / "plain"
    written = compile_project(lambda: spark, PROJECT, out, ["--profiles-dir", str(PROJECT), "--target", "bare"], {"until": build.DAYS[-1]})
    profiles = out / "profiles.yml"
    profiles.write_text(profiles.read_text().replace("flights_served", "flights_plain"))
    os.environ |= {"DBT_PROJECT_DIR": str(out), "DBT_PROFILES_DIR": str(out)}
    for day in build.DAYS:
        assert run("build", "--target", "served", "--vars", json.dumps({"until": day})).success, day
    found = there("flights_plain", "served")
    os.environ |= {"DBT_PROJECT_DIR": str(PROJECT), "DBT_PROFILES_DIR": str(PROJECT)}
    left = [str(row[0]) for row in spark.sql("SHOW SCHEMAS").collect() if row[0].startswith("streamtime_ref")]
    files = {path: (out / path).read_text() for path in written.compiled}
    return found | {"files": files, "not compiled": written.refused, "left": left}


def main(channel: str, folder: str) -> None:
    os.environ["FLIGHTS_CORES"] = "2"
    asks_at_once()
    built = here()
    built |= {"changes": changes(Path(folder) / "people"), "page": page(Path(folder) / "shop")}
    say(channel, json.dumps(built))
    bare(channel, Path(folder))
    served(channel)


if __name__ == "__main__":
    main(*sys.argv[1:])

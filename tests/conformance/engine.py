"""Runs the texts of a bundle on one engine, which has neither the pack nor its tests: `engine.py NAME BUNDLE RESULTS [module:function]`.

Results are the columns of each case, and its rows where they are not those of the call; or the first line of the error. For Spark,
DELTA_JARS has the paths of Delta's jars.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rows

Rows = list[list[str | None]]
Settings = dict[str, str]
Run = Callable[[str], tuple[str | list[str], Rows]]  # a text to the columns of its result, or their names alone, and its rows
Known = Callable[[str, Path], None]  # a table becomes known by a name
Engine = tuple[str, Run, Known, Callable[[Settings], None]]  # its name and version, how it does these, and how its session is set


MACROS = (  # what sqlglot leaves to DuckDB as it is, in its own words
    "spark_partition_id() AS 0",
    "monotonically_increasing_id() AS nextval('rows_seen')",
    "get(items, place) AS list_extract(items, place + 1)",
    "safe_subtract(a, b) AS TRY(a - b)",
    "safe_add(a, b) AS TRY(a + b)",
    "timestamp_micros(n) AS make_timestamptz(n)",
    "unix_micros(t) AS epoch_us(t)",
    "unix_date(d) AS d - DATE '1970-01-01'",
    "pmod(a, b) AS ((a % b) + b) % b",
    "shiftleft(a, n) AS a << n",
    "shiftright(a, n) AS a >> n",
    "array_compact(items) AS list_filter(items, lambda x: x IS NOT NULL)",
)


class Blocked:
    """Nothing of the pack is here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] == "streamtime":
            raise ModuleNotFoundError("streamtime is not here")


@contextmanager
def spark(_: str) -> Iterator[Engine]:
    """PySpark as it is."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "3").config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.sql.adaptive.enabled", "false")
    # rows are few and plans large: to compile Java takes longer than to run
    builder = builder.config("spark.sql.codegen.wholeStage", "false").config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "1").config("spark.sql.warehouse.dir", tempfile.mkdtemp())
    session = builder.config("spark.driver.extraClassPath", os.environ["DELTA_JARS"]).getOrCreate()
    yield f"Spark {session.version}", _through(session), _views(session), _settings(session)
    session.stop()


@contextmanager
def sail(_: str) -> Iterator[Engine]:
    """Sail: speaks Spark SQL over Spark Connect, without a JVM."""
    from importlib.metadata import version

    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield f"Sail {version('pysail')}", _through(session), _views(session), _settings(session)
    session.stop()
    server.stop()


@contextmanager
def duckdb(_: str) -> Iterator[Engine]:
    """DuckDB, whose SQL is another: sqlglot translates, and a few macros say the rest."""
    import duckdb as engine
    import sqlglot

    views: dict[str, str] = {}

    def opened() -> Any:
        connection = engine.connect()
        for statement in (
            "SET TimeZone = 'UTC'",
            "CREATE SEQUENCE rows_seen",
            *(f"CREATE MACRO {macro}" for macro in MACROS),
            *views.values(),
        ):
            connection.execute(statement)
        return connection

    connections = [opened()]

    def run(text: str) -> tuple[str, Rows]:
        try:
            translated = sqlglot.transpile(text, read="spark", write="duckdb", unsupported_level=sqlglot.ErrorLevel.IGNORE)[0]
            return "", rows.of_table(connections[0].execute(translated).to_arrow_table())
        except (engine.InternalException, engine.FatalException):  # after which it takes nothing more
            connections[0] = opened()
            raise

    def known(name: str, path: Path) -> None:
        views[name] = f"CREATE OR REPLACE TEMP VIEW \"{name.strip('`')}\" AS SELECT * FROM read_parquet('{path}/*.parquet')"
        connections[0].execute(views[name])

    yield f"DuckDB {engine.__version__}", run, known, as_it_is


@contextmanager
def own(connect: str) -> Iterator[Engine]:
    """Any engine that speaks Spark SQL, by a function that gives a DB-API connection. Its session should have the time zone UTC."""
    module, _, function = connect.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    connection = getattr(importlib.import_module(module), function or "connect")()

    def run(text: str) -> tuple[list[str], Rows]:
        cursor = connection.cursor()
        cursor.execute(text)
        its = rows.of_rows(cursor.fetchall())
        names = [column[0] for column in cursor.description]
        cursor.close()
        return names, its

    def known(name: str, path: Path) -> None:
        cursor = connection.cursor()
        cursor.execute(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {path.with_suffix('.sql').read_text(encoding='utf-8')}")
        cursor.close()

    try:
        version = f" {run('SELECT version()')[1][0][0]}"
    except Exception:  # whatever the engine has
        version = ", which tells no version"
    yield module + version, run, known, as_it_is
    connection.close()


class FailedAsItRan(Exception):
    """A text that was right, and had these columns."""

    def __init__(self, columns: str, error: Exception) -> None:
        super().__init__(columns)
        self.columns, self.error = columns, error


def _through(session: Any) -> Run:
    def run(text: str) -> tuple[str, Rows]:
        df = session.sql(text)
        columns = df.schema.simpleString()
        try:
            return columns, rows.of_table(df.toDF(*[f"c{i}" for i in range(len(df.columns))]).toArrow())
        except Exception as error:  # whatever Spark has
            raise FailedAsItRan(columns, error) from error

    return run


def _settings(session: Any) -> Callable[[Settings], None]:
    usual: Settings = {}

    def settle(settings: Settings) -> None:
        for name in settings.keys() - usual.keys():
            usual[name] = session.conf.get(name)
        for name, value in usual.items():
            session.conf.set(name, settings.get(name, value))

    return settle


def as_it_is(settings: Settings) -> None:
    """For an engine whose settings are other ones."""
    if settings:
        raise ValueError(f"it would take {settings}")


def _views(session: Any) -> Callable[[str, Path], None]:
    def known(name: str, path: Path) -> None:
        in_schema, plain = "`.`" in name, name.strip("`")
        if in_schema:
            session.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
        if (path / "_delta_log").exists():
            session.catalog.dropTempView(plain)  # another case's, which would stand in front of it
            session.sql(f"DROP TABLE IF EXISTS {name}")
            session.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
            return
        columns = path.with_suffix(".ddl").read_text(encoding="utf-8")
        if in_schema:
            session.sql(f"DROP TABLE IF EXISTS {name}")
            session.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{path}'")
        else:
            session.read.schema(columns).parquet(str(path)).createOrReplaceTempView(plain if plain.isidentifier() else name)

    return known


ENGINES = {"spark": spark, "sail": sail, "duckdb": duckdb, "own": own}


def gist(error: Exception) -> str:
    """The first line that says something, of what is behind an error of the JVM where PySpark does not say it."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error) if cause is None else str(cause.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def keep(results: Path, name: str, found: dict[str, Any]) -> None:
    """Writes what is known: the file is whole, whenever this is stopped."""
    part = results.with_suffix(".part")
    part.write_text(json.dumps({"engine": name, "found": found}), encoding="utf-8")
    part.replace(results)


def main(kind: str, bundle: Path, results: Path, connect: str = "") -> None:
    """Runs what is not in the results yet: who started this may have stopped an engine that gave no answer."""
    found: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))["found"] if results.exists() else {}
    cases = json.loads((bundle / "cases.json").read_text(encoding="utf-8"))
    with ENGINES[kind](connect) as (name, run, known, settle):
        keep(results, name, found)  # it has begun
        places: dict[str, str] = {}
        for case in cases:
            if case["name"] in found:
                continue
            try:
                settle(case.get("settings", {}))
                for table, place in case["tables"].items():
                    if places.get(table) != place:
                        known(table, bundle / "tables" / place)
                        places[table] = place
                columns, its = run(case["text"])
                told = {"columns": columns} if isinstance(columns, str) else {"columns": "", "names": columns}
                found[case["name"]] = told | ({} if its == case["rows"] else {"rows": its})
            except FailedAsItRan as failed:
                found[case["name"]] = {"columns": failed.columns, "error": gist(failed.error)}
            except Exception as error:  # whatever the engine has
                found[case["name"]] = {"error": gist(error)}
            keep(results, name, found)
            if sys.stderr.isatty():
                print(f"\r[{name}: {len(found)} of {len(cases)} ..]", end="", file=sys.stderr, flush=True)
    print(f"\r[{name}: {len(cases)} cases]" + " " * 20, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
    sys.stdout.flush()
    os._exit(0)  # servers in threads do not keep us

"""A session of plain PySpark, in a process that cannot import the pack: runs texts over Parquet files, and a notebook, and keeps what they give."""

from __future__ import annotations

import pickle
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook" / "databricks_plain.py"
Rows = list[list[str | None]]


class Blocked:
    """Nothing of the pack is here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] == "streamtime":
            raise ModuleNotFoundError("streamtime is not here")


def reopened(spark: SparkSession, table: Path) -> None:
    """A table of another session, where it lies."""
    if (table / "_delta_log").exists():
        spark.sql(f"CREATE TABLE {table.name} USING delta LOCATION '{table}'")
    else:
        spark.read.parquet(str(table)).createOrReplaceTempView(table.name)


def said(df: DataFrame) -> tuple[str, list[tuple[str | None, ...]]]:
    """The schema, and the rows as text in any order, whatever names and years they have: another DataFrame would be analysed once more."""
    table = df.toArrow()
    columns = [column.cast(as_numbers(column.type)).to_pylist() for column in table.columns]  # two may have one name
    rows = [tuple(None if value is None else str(value) for value in row) for row in zip(*columns, strict=True)]
    return df.schema.simpleString(), sorted(rows, key=repr)


def scans(df: DataFrame) -> Counter[str]:
    """How often each Parquet file is read by the plan that ran, what Spark reuses counted once."""
    plan = df._jdf.queryExecution().executedPlan().toString()
    return Counter(re.findall(r"FileScan parquet .*Location: \w+\(\d+ paths\)\[[^\]]*/tables/(\w+)\]", plan))


def as_numbers(kind: pa.DataType) -> pa.DataType:
    """A type whose times are numbers: Python has no years before 1 and behind 9999."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(as_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, as_numbers(f.type)) for f in kind])
    return kind


def cells(notebook: str) -> Iterator[tuple[str, str]]:
    """The cells of a Databricks notebook's source, each with its language."""
    for cell in notebook.removeprefix("# Databricks notebook source\n").split("\n# COMMAND ----------\n"):
        lines = cell.strip().splitlines()
        magic = [line.removeprefix("# MAGIC").removeprefix(" ") for line in lines]
        yield (magic[0].removeprefix("%"), "\n".join(magic[1:])) if lines[0].startswith("# MAGIC %") else ("python", cell)


def shown(spark: SparkSession, notebook: str) -> list[Rows]:
    """What a notebook shows, run from its first cell to its last: of each table the columns and the rows, as text."""
    found: list[Rows] = []

    def display(df: DataFrame) -> None:
        rows = df.select([df[column].cast("string") for column in df.columns]).collect()
        found.append([list(df.columns), *map(list, rows)])

    names = {"spark": spark, "display": display}
    for language, text in cells(notebook):
        if language == "python":
            exec(text, names)
        elif language == "sql" and (df := spark.sql(text)).columns:
            display(df)
    return found


def main(folder: Path, jars: str) -> None:
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "false",  # rows are few and plans large: to plan anew, or to compile Java, takes longer than to run
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.analyzer.maxIterations": "80",  # of 100 turns, some are left for the statement that a text is in
        "spark.sql.maxMetadataStringLength": "1000",  # so that plans say which files they read
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
        "spark.log.level": "OFF",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraClassPath": jars,
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for table in (folder / "tables").iterdir():
        reopened(spark, table)
    for statement in pickle.loads((folder / "views").read_bytes()):  # as the other session's catalog has them
        spark.sql(statement)
    texts = pickle.loads((folder / "texts").read_bytes())
    found = {}
    for name, text in texts.items():
        df = spark.sql(text)
        found[name] = (*said(df), scans(df))
    notebook = shown(spark.newSession(), NOTEBOOK.read_text())
    spark.stop()
    assert "streamtime" not in sys.modules
    (folder / "found").write_bytes(pickle.dumps((found, notebook)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""The command `streamtime export`: statements with calls as a script for a platform that has not the pack."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """\
Writes a script for Databricks that does what these statements do: plain SQL, and for calls that need a kernel functions in Python, which
Unity Catalog hosts. What it writes was not run on Databricks. Exit code 1 if a call is wrong, or can be neither: then stderr says why.
"""
EXAMPLES = """\
examples:
  streamtime export databricks daily.sql --warehouse ~/warehouse > databricks.sql
  streamtime export databricks daily.sql --tables columns.json --schema main.shop --wheel /Volumes/main/shop/streamtime.whl
"""


def add(commands: Any, formatter: Any, setting: Callable[[str], Any]) -> None:
    """Its options."""
    one = commands.add_parser(
        "export", help="statements as a script for Databricks", description=TEXT, epilog=EXAMPLES, formatter_class=formatter
    )
    one.add_argument("platform", choices=("databricks",), help="for what")
    one.add_argument("file", nargs="?", default="-", metavar="FILE", help="the statements (default: stdin)")
    one.add_argument("--schema", metavar="CATALOG.SCHEMA", help="where functions are created (default: main.streamtime)")
    one.add_argument("--wheel", metavar="PATH", help="where the pack's wheel lies, in a volume; functions need it")
    one.add_argument("--table", type=setting, action="append", metavar="NAME=COLUMNS", help="a table's columns; may be repeated")
    one.add_argument("--tables", type=Path, metavar="FILE", help='a JSON file with columns of tables: {"NAME": "COLUMNS"}')
    one.add_argument("--conf", type=setting, action="append", metavar="KEY=VALUE", help="a Spark setting; may be repeated")
    one.add_argument("--warehouse", type=Path, metavar="DIR", help="the folder where `streamtime sql` keeps tables and views")


def run(options: argparse.Namespace, spark: SparkSession, text: str, tables: Any) -> str:
    """What is to be printed. Raises what `streamtime.compile` raises."""
    from streamtime.plain.hosting import exported

    given = {"schema": options.schema, "wheel": options.wheel}
    return exported(spark, text, tables=tables, **{name: value for name, value in given.items() if value}).rstrip("\n")

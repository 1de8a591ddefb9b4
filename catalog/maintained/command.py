"""The command `streamtime maintain`: one run for a table, for a scheduler."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """\
Makes a table what a query gives, and keeps it so: each run computes anew what changes touched since the last one, in one commit. Says what
it read, did and cost. Exit code 1 if the query cannot be maintained, or a commit failed: then stderr says why, and nothing was written.
"""
EXAMPLES = """\
examples:
  streamtime maintain shop.revenue revenue.sql --warehouse ~/warehouse
  streamtime maintain shop.revenue revenue.sql --warehouse ~/warehouse --explain
  streamtime maintain shop.orders_in_full orders.sql --warehouse ~/warehouse --key id --policy incremental --format json
"""


def add(commands: Any, formatter: Any, session: Callable[[Any, str], None]) -> None:
    """Its options."""
    one = commands.add_parser(
        "maintain", help="keep a table equal to a query", description=TEXT, epilog=EXAMPLES, formatter_class=formatter
    )
    one.add_argument("target", metavar="TABLE", help="the table that is made and kept")
    one.add_argument("file", nargs="?", default="-", metavar="FILE", help="the query (default: stdin)")
    one.add_argument("--key", action="append", metavar="COLUMN", help="a column that tells the result's rows apart; may be repeated")
    one.add_argument("--policy", choices=("auto", "incremental", "full"), default="auto", help="which way (default: the cheaper one)")
    one.add_argument("--explain", action="store_true", help="say what would be done, and do nothing")
    one.add_argument("--shadow", action="store_true", help="compute all as well, and count the rows that differ")
    one.add_argument("--format", choices=("text", "json"), default="text", help="lines for people, or JSON (default: text)")
    session(one.add_argument_group("the local session"), "they would be gone at once, so name one")


def run(options: argparse.Namespace, spark: SparkSession, text: str) -> str:
    """One run; what is to be printed. Raises what `streamtime.maintain` raises."""
    from streamtime.maintained.maintaining import maintain

    query = text.strip().removesuffix(";")
    receipt = maintain(spark, options.target, query, key=options.key, policy=options.policy, explain=options.explain, shadow=options.shadow)
    return json.dumps(asdict(receipt)) if options.format == "json" else str(receipt)


def warehouse(options: argparse.Namespace) -> Path:
    """The folder with the tables. Raises ValueError where none is named."""
    if options.warehouse is None:
        raise ValueError("maintain: `--warehouse` is missing: the folder where `streamtime sql` keeps tables, with those that are read.")
    folder: Path = options.warehouse
    return folder

"""What must hold of the quickstart's tables, said in Great Expectations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamtime import expectations
from streamtime.expectations import Checked


def postconditions(spark: SparkSession) -> dict[str, list[Any]]:
    """Table to expectations: those that follow from the call which made it, and more."""
    import great_expectations.expectations as gxe

    def none(query: str, says: str) -> Any:
        return gxe.UnexpectedRowsExpectation(unexpected_rows_query=query, description=says)

    call = "DEDUPLICATE(TABLE({batch}) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR{more})"
    idempotent = "SELECT * FROM {batch} EXCEPT ALL SELECT * FROM " + call

    def of_call(more: str = "") -> list[Any]:
        return [*expectations.of_call(spark, "SELECT * FROM " + call.format(batch="alerts", more=more))]

    return {
        "flights": [
            gxe.ExpectTableRowCountToEqual(value=336_776),
            gxe.ExpectColumnValuesToNotBeNull(column="scheduled"),
            gxe.ExpectColumnValuesToBeInSet(column="origin", value_set=["EWR", "JFK", "LGA"]),
        ],
        "weather": [gxe.ExpectTableRowCountToEqual(value=26_115)],
        "pages": [
            gxe.ExpectColumnValuesToBeBetween(column="delay_minutes", min_value=60, strict_min=True),
            *of_call(),
            none(idempotent.replace("{more}", ""), "a second DEDUPLICATE finds nothing to drop"),
        ],
        "incidents": [
            *of_call(", refresh => true"),
            none(idempotent.replace("{more}", ", refresh => true"), "a second DEDUPLICATE finds nothing to drop"),
        ],
        "first_flights": [
            expectations.one_final_row_per_window("tailnum"),
            gxe.ExpectColumnValuesToNotBeNull(column="tailnum"),
            none(
                "SELECT * FROM {batch} WHERE NOT (window_start <= departed AND departed < window_end)",
                "W1: a window holds its row, its end excluded",
            ),
        ],
        "daily_weather": [
            expectations.no_duplicates_within(["origin", "date(at)"], "at"),
            gxe.ExpectColumnValuesToBeBetween(column="temperature", min_value=-20, max_value=120),
        ],
    }


def check(spark: SparkSession, docs: Path) -> list[Checked]:
    """Validate the tables of the current schema, and write a page about it into a folder."""
    return expectations.validate(spark, postconditions(spark), docs)

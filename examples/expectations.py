"""What must hold of the quickstart's tables, said in Great Expectations."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from pyspark.sql import SparkSession

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


def postconditions() -> dict[str, list[Any]]:
    """Table to expectations."""
    import great_expectations.expectations as gxe

    def none(query: str, says: str) -> Any:
        return gxe.UnexpectedRowsExpectation(unexpected_rows_query=query, description=says)

    within = "JOIN {batch} b ON a.origin = b.origin AND b.departed > a.departed AND b.departed <= a.departed + INTERVAL 1 HOUR"
    call = "DEDUPLICATE(TABLE({batch}) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR{more})"
    idempotent = "SELECT * FROM {batch} EXCEPT ALL SELECT * FROM " + call
    return {
        "flights": [
            gxe.ExpectTableRowCountToEqual(value=336_776),
            gxe.ExpectColumnValuesToNotBeNull(column="scheduled"),
            gxe.ExpectColumnValuesToBeInSet(column="origin", value_set=["EWR", "JFK", "LGA"]),
        ],
        "weather": [gxe.ExpectTableRowCountToEqual(value=26_115)],
        "pages": [
            gxe.ExpectColumnValuesToBeBetween(column="delay_minutes", min_value=60, strict_min=True),
            none("SELECT a.* FROM {batch} a " + within, "D1: no two pages of an airport lie within an hour"),
            none(idempotent.replace("{more}", ""), "a second DEDUPLICATE finds nothing to drop"),
        ],
        "incidents": [
            none("SELECT a.* FROM {batch} a " + within, "D2: incidents of an airport lie more than an hour apart"),
            none(idempotent.replace("{more}", ", refresh => true"), "a second DEDUPLICATE finds nothing to drop"),
        ],
        "first_flights": [
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["tailnum", "window_start"]),
            gxe.ExpectColumnValuesToNotBeNull(column="tailnum"),
            none(
                "SELECT * FROM {batch} WHERE NOT (window_start <= departed AND departed < window_end)",
                "W1: a window holds its row, its end excluded",
            ),
        ],
        "daily_weather": [
            none(
                "SELECT origin, date(at) FROM {batch} GROUP BY origin, date(at) HAVING count(*) > 1",
                "D8: one reading for each airport and day",
            ),
            gxe.ExpectColumnValuesToBeBetween(column="temperature", min_value=-20, max_value=120),
        ],
    }


def check(spark: SparkSession) -> list[tuple[str, str, bool]]:
    """Validate the tables of the current schema: (table, expectation, whether it holds)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        source = context.data_sources.add_spark("spark")
        found = []
        for table, expectations in postconditions().items():
            batch_definition = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
            batch = batch_definition.get_batch(batch_parameters={"dataframe": spark.table(table)})
            for expectation in expectations:
                result = batch.validate(expectation)
                column = getattr(expectation, "column", None)
                says = expectation.description or type(expectation).__name__ + (f" ({column})" if column else "")
                found.append((table, says, bool(result.success)))
    return found

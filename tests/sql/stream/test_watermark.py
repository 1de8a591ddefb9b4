"""Whether a stream has a watermark, by its plan as Spark writes it; no session is needed."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from streamtime.sql.stream.watermark import WATERMARK, WATERMARKED, WATERMARKED_BELOW, own_watermarks

PLAIN = [T.StructField("k", T.StringType()), T.StructField("ts", T.TimestampType())]
MARKED = [PLAIN[0], T.StructField("ts", T.TimestampType(), True, {WATERMARK: 1000})]
OURS = [PLAIN[0], T.StructField("ts", T.TimestampType(), True, {WATERMARK: 1000, WATERMARKED_BELOW: True})]
TABLE = """~Project [k#1, ts#2-T1000ms]
+- ~SubqueryAlias spark_catalog.default.t
   +- StreamingRelation delta, [k#1, ts#2-T1000ms], name=<Unassigned>
"""
NAMED = """~Project [k#1, ts#2-T1000ms]
+- ~SubqueryAlias c
   +- ~CTERelationRef 3, true, [k#1, ts#2-T1000ms], true, false
"""
DEFINED = """~WithCTE
:- ~CTERelationDef 3, false
:  +- ~SubqueryAlias c
:     +- StreamingRelation delta, [k#1, ts#2-T1000ms], name=<Unassigned>
+- ~Project [k#1, ts#2-T1000ms]
   +- ~CTERelationRef 3, true, [k#1, ts#2-T1000ms], true, false
"""


def given(node: str) -> str:
    """The plan over a table with this node in it."""
    return TABLE.replace("+- ~SubqueryAlias", f"+- {node}\n   +- ~SubqueryAlias")


@pytest.mark.parametrize(
    ("plan", "fields", "own"),
    [
        (TABLE, PLAIN, []),
        (TABLE, MARKED, []),  # the table brought the marks
        (TABLE, OURS, []),
        (TABLE.replace("ts#2", "`+- EventTimeWatermark ts#2`"), MARKED, []),  # the name of a column is no node
        (given("~EventTimeWatermark 6fadde29-acce-49cb-8c79-c0f079b79bbb, ts#2: timestamp, 5 seconds"), MARKED, ["ts"]),
        (given("EventTimeWatermark at time#2: timestamp, 5 seconds"), PLAIN, ["at time"]),  # as Spark 4.0 writes it
        (given(f"~EventTimeWatermark {WATERMARKED}#2: timestamp, 5 seconds"), OURS, [WATERMARKED]),  # a call below
        (NAMED, PLAIN, []),
        (NAMED, MARKED, ["ts"]),  # what a name of WITH stands for is not in the plan: its columns alone can tell
        (NAMED, OURS, [WATERMARKED]),
        (DEFINED, MARKED, []),
        (None, MARKED, ["ts"]),
    ],
)
def test_the_plan_says_whether_there_is_a_watermark(plan: str | None, fields: list[T.StructField], own: list[str]) -> None:
    assert own_watermarks(plan, fields) == own

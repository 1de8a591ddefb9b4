"""What can be asked of a DataFrame before PySpark reads its schema: the analysed plan and the schema, both as text, and its size.

A DataFrame of a door that is not analysed yet says both itself, as `plan_text` and `schema_json`, and has its input's `plan`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

LIMIT = re.compile(r"^[ :+-]*(GlobalLimit|Offset) ", re.MULTILINE)
WORD = re.compile(r"\b(limit|offset)\b", re.IGNORECASE)
LAST = re.compile(r"[ +-]*(GlobalLimit|Offset) ")  # with a colon before it, it is a subquery's, or one side's of a join
ABOVE = re.compile(r"[ +-]*(SubqueryAlias|View|Project|Filter)\b")


def plan_text(df: Any) -> str | None:
    """The analysed plan as text; None where there is none: operators that are not analysed yet, or the rows of a Python UDTF."""
    if hasattr(type(df), "plan_text"):
        own: str | None = df.plan_text
        return own
    if _is_of_client(df):
        explained: str = df._explain_string(mode="extended")
        return explained.partition("== Analyzed Logical Plan ==\n")[2].partition("\n")[2].partition("\n\n==")[0]
    return str(df._jdf.queryExecution().analyzed().toString()) if hasattr(df, "_jdf") else None


def limited(df: Any) -> Literal["in all", "in part", ""]:
    """Whether a plan takes some rows of many by LIMIT or OFFSET, so that it may have others each time it runs.

    Where that is all it does, one task has them. Over Spark Connect the server is asked only where the client's own words say so: of a view
    there, nobody knows what it does.
    """
    told = _to_server(df)
    if told is not None and not WORD.search(told):
        return ""
    text = plan_text(df) or ""
    if not LIMIT.search(text):
        return ""
    first = next(line for line in text.splitlines() if not ABOVE.match(line))
    return "in all" if LAST.match(first) else "in part"


def _to_server(df: Any) -> str | None:
    """What a client of Spark Connect says to its server of a DataFrame."""
    return str(df._plan.to_proto(df.sparkSession.client)) if _is_of_client(df) else None


def _is_of_client(df: Any) -> bool:
    return hasattr(type(df), "_explain_string") and not hasattr(df, "_jdf")


def source_text(df: Any) -> str | None:
    """The plan of the rows that operators stand on which are not analysed yet; else as `plan_text`."""
    return str(df.plan.toString()) if hasattr(type(df), "plan") else plan_text(df)


def schema_json(df: Any) -> str | None:
    """The schema as JSON, which is not read; None for Spark Connect, whose client reads it in its own way, and in a Python UDTF."""
    if hasattr(type(df), "schema_json"):
        return str(df.schema_json)
    return str(df._jdf.schema().json()) if hasattr(df, "_jdf") else None


def size(df: Any) -> int | None:
    """The bytes of the one relation that is all that an analysed plan reads, as its files or Spark's own statistics have them.

    None where they are not at hand: to ask other relations may run a query.
    """
    if not hasattr(df, "_jdf") and not hasattr(type(df), "plan"):
        return None
    plan = df.plan if hasattr(type(df), "plan") else df._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    if leaves.size() != 1:
        return None
    leaf = leaves.head()
    kind = leaf.nodeName()
    if kind in ("LocalRelation", "Range"):
        return int(str(leaf.stats().sizeInBytes()))
    if kind != "LogicalRelation":
        return None
    made = leaf.relation().getClass()
    if "HadoopFsRelation" not in (made.getSimpleName(), made.getSuperclass().getSimpleName()):
        return None
    files = leaf.relation().location()
    index = files.getClass().getSimpleName()
    if index == "TahoeLogFileIndex":  # of Delta, where that stands in the table's log, or was asked before
        known = files.sizeInBytesIfKnown()
        return int(str(known.get())) if known.isDefined() else None
    return int(str(files.sizeInBytes())) if index == "InMemoryFileIndex" else None

"""What a plan may know of where its rows come from: that they are few, or that files of columns have them as they are.

Few rows go through one task. Columns of files may be read once more, which costs little.
Elsewhere a plan computes its input as seldom as it can: what a query computes may be dear (JSON, Python), and may come out differently.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streamtime.sql.rows.frame import HERE
from streamtime.sql.rows.unread import plan_text, size

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import Column

    from streamtime.sql.rows.frame import Frame

READS = re.compile(r"Relation [^\[]*\[.*\] (parquet|orc)")  # a file of text is parsed at each reading
KEEPS = re.compile(r"(SubqueryAlias|View|Project|Filter)\b(.*)")
CALLED = re.compile(r"([\w`.$-]+)\(")
COMPARES = {"cast", "isnull", "isnotnull", "NOT", "IN", "AND", "OR"}
UNTOLD = re.compile(r"subquery|[.]{3}")  # what else a node may have, and says elsewhere or not at all
SMALL = 1_000_000  # bytes, which one task sorts before others have begun


def is_few(rows: Any) -> bool:
    """Whether rows are so few that one task is the fastest: of a small relation, with nothing above it that makes more of them."""
    plan = plan_text(rows)
    if not plan or not all(KEEPS.fullmatch(line.lstrip(" +-")) for line in plan.strip().splitlines()[:-1]):
        return False
    bytes_ = size(rows)
    return bytes_ is not None and bytes_ <= SMALL


def straight_from_files(frame: Frame) -> bool:
    """Whether files, views, chosen columns and plain comparisons are all that the input is, and each role is a column of it.

    Where no kernel may run, that is nothing to go by: a text is to be the same wherever it is compiled, with the tables or without.
    """
    if not frame.kernels:
        return False
    own = {c.name for c in frame.columns}
    roles = [*frame.keys, *(o.ref for o in frame.order), frame.time]
    plan = plan_text(frame.source) if own >= {r.name for r in roles} else None
    return plan is not None and is_plain(plan)


def may_be_read_again(frame: Frame) -> bool:
    """Whether a plan rather reads its input once more than keeps what it has read.

    Where no kernel may run, always: Spark keeps what a text names only if it is not deterministic, and then shuffles all its rows for that.
    """
    return not frame.kernels or straight_from_files(frame)


def chosen(frame: Frame, condition: Column) -> Frame:
    """The rows of which this is true, for Spark's own operators: of files by a filter, which moves down to them, and others with it."""
    if may_be_read_again(frame):
        return frame.with_df(frame.df.where(condition))
    frame = frame.only(condition)
    return frame.with_df(frame.df.drop(HERE))


def is_plain(plan: str) -> bool:
    """Whether a plan, as Spark writes it, has nothing but files of columns, views, chosen columns and plain comparisons."""
    *above, last = (line.lstrip(" +-") for line in plan.strip().splitlines() or [""])
    return READS.fullmatch(last) is not None and all(map(_keeps, above))


def _keeps(line: str) -> bool:
    """Whether a node computes nothing for a row but comparisons."""
    node = KEEPS.fullmatch(line)
    if node is None or node[1] in ("SubqueryAlias", "View"):
        return node is not None
    return COMPARES.issuperset(CALLED.findall(node[2])) and not UNTOLD.search(node[2])

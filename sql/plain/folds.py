"""Rows of a group, collected into an array and folded by Spark's `aggregate`: for plans of Spark's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

FOUND = f"{PREFIX}found"
AT_ONCE = 1000  # items in one array while they are gathered: to append to a long one copies it


def collected(*columns: str) -> Column:
    """These columns of a group's rows as an array, `FOUND`; sorted, the first column decides."""
    return F.collect_list(F.struct(*map(named, columns))).alias(FOUND)


def fold(start: dict[str, str], moved: str, gives: str, items: str, none: str, rest: str = "") -> str:
    """SQL text of a fold over `FOUND`, sorted: `so_far` begins as `start` and is `moved` by each `one`; where one `gives`, there are items.

    `none` is an empty array of items, `rest` those that `so_far` has at the end. Items are gathered in arrays of arrays.
    """
    state = [*(f"{value} AS {name}" for name, value in start.items()), f"slice(array({none}), 1, 0) AS done", f"{none} AS now"]
    full = f"{gives} AND size(so_far.now) >= {AT_ONCE}"
    done = f"if({full}, concat(so_far.done, array(so_far.now)), so_far.done) AS done"
    now = f"if({gives}, if({full}, {items}, concat(so_far.now, {items})), so_far.now) AS now"
    step = f"(so_far, one) -> struct({moved}, {done}, {now})"
    folded = f"aggregate(sort_array({quoted(FOUND)}), struct({', '.join(state)}), {step})"
    return let("so_far", folded, f"flatten(concat(so_far.done, array(so_far.now{f', {rest}' if rest else ''})))")


def let(name: str, value: str, text: str) -> str:
    """SQL text in which a name stands for a value that is computed once."""
    return f"transform(array({value}), {name} -> {text})[0]"

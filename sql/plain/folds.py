"""Rows of a group, collected into an array and folded by Spark's `aggregate`: for plans of Spark's own operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import let, plus, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

# Columns beside a user's keys, which have any names. Within a lambda, and within a struct that only lambdas see, names need no prefix.
COLLECTED, CHUNK, ONE, LAST, ITEMS = (f"{PREFIX}{name}" for name in ("collected", "chunk", "one", "last", "items"))
AT_ONCE = 1000  # items in one array while they are gathered: to append to a long one copies it


def collected(*columns: str, where: Column | None = None) -> Column:
    """These columns of a group's rows, or of those `where` it is true, as an array, `COLLECTED`; sorted, the first column decides."""
    its = F.struct(*map(named, columns))
    return F.collect_list(its if where is None else F.when(where, its)).alias(COLLECTED)


def fold(start: dict[str, str], moved: str, gives: str, items: str, none: str, rest: str = "") -> str:
    """SQL text of a fold over `COLLECTED`, sorted: `so_far` begins as `start` and is `moved` by each `one`.

    Where one `gives`, there are `items`. `none` is an empty array of items, `rest` those that `so_far` has at the end. Items are gathered
    in arrays of arrays.
    """
    state = [*(f"{value} AS {name}" for name, value in start.items()), f"slice(array({none}), 1, 0) AS done", f"{none} AS now"]
    full = f"{gives} AND size(so_far.now) >= {AT_ONCE}"
    done = f"if({full}, concat(so_far.done, array(so_far.now)), so_far.done) AS done"
    now = f"if({gives}, if({full}, {items}, concat(so_far.now, {items})), so_far.now) AS now"
    step = f"(so_far, one) -> struct({moved}, {done}, {now})"
    folded = f"aggregate(sort_array({quoted(COLLECTED)}), struct({', '.join(state)}), {step})"
    return let("so_far", folded, f"flatten(concat(so_far.done, array(so_far.now{f', {rest}' if rest else ''})))")


@dataclass(frozen=True)
class Chain:
    """Items, each of which is taken if it comes after the reach of the one taken before: `within` past the time of that.

    `start` is the time of the one that is taken first, as SQL text. `row` numbers the rows; `since` only rises with it, and says when an
    item comes. It and `at`, the item's time, are names of columns; where they are one, an item is that number alone.
    """

    start: str
    row: str
    since: str
    at: str
    within: int
    more: tuple[str, ...] = ()  # other columns of an item

    def taken(self, rows: DataFrame, by: Sequence[Column]) -> DataFrame:
        """The items taken of each group of rows, with `by` and their columns.

        A group's items are gathered in chunks, and one that ends within reach is not looked into: most are such where rows are dense.
        """
        alone = self.since == self.at and not self.more
        item = named(self.at) if alone else F.struct(*map(named, dict.fromkeys((self.since, self.at, *self.more))))
        since, at = ("one", "one") if alone else (f"one.{quoted(self.since)}", f"one.{quoted(self.at)}")
        chunk = expression(f"{quoted(self.row)} DIV {AT_ONCE}").alias(CHUNK)
        chunks = rows.groupBy(*by, chunk).agg(F.max(named(self.since)).alias(LAST), F.collect_list(item).alias(ITEMS))
        its = F.struct(named(LAST).alias("last"), named(ITEMS).alias("items"))
        chunks_of_keys = chunks.groupBy(*by).agg(F.collect_list(its).alias(COLLECTED))
        none = f"slice(get({quoted(COLLECTED)}, 0).items, 1, 0)"
        took = f"struct({plus(at, self.within)} AS reach, concat(now.taken, array(one)) AS taken)"
        start = f"struct(so_far.reach AS reach, {none} AS taken)"
        inside = f"aggregate(sort_array(chunk.items), {start}, (now, one) -> if({since} > now.reach, {took}, now))"
        moved = let("then", inside, "struct(then.reach AS reach, concat(so_far.taken, array(then.taken)) AS taken)")
        start = f"struct({plus(self.start, self.within)} AS reach, slice(array({none}), 1, 0) AS taken)"
        step = f"(so_far, chunk) -> if(chunk.last > so_far.reach, {moved}, so_far)"
        every = f"flatten(aggregate(sort_array({quoted(COLLECTED)}), {start}, {step}).taken)"
        one = chunks_of_keys.select(*by, F.explode(expression(every)).alias(ONE))
        return one.select(*by, named(ONE).alias(self.at)) if alone else one.select(*by, f"{ONE}.*")

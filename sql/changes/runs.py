"""Changes of each key together and in order, with one sort for all windows over them.

They are sorted before the shuffle, by one number of the key's hash and the first ORDER BY expression (`streamtime.sql.rows.sorting`); the
first window's own sort then has runs to merge. What divides by the place in ORDER BY, too, is in that order already, where it goes up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window

from streamtime.sql.rows.columns import direct, expression, named
from streamtime.sql.rows.frame import Order, Ref
from streamtime.sql.rows.sorting import rising, sorted_runs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec


@dataclass(frozen=True)
class Runs:
    """The rows, and how windows over them are said."""

    df: DataFrame
    within: tuple[str, ...]  # what a window over a key divides by
    order: tuple[Order, ...]
    ties: tuple[Column, ...]

    def each(self, *apart: str) -> WindowSpec:
        """The changes of each key, in order; those that differ in the columns `apart` do not see each other."""
        return Window.partitionBy(*map(named, (*self.within, *apart))).orderBy(*(o.sort() for o in self.order), *self.ties)

    def each_place(self, places: Collection[str]) -> WindowSpec:
        """Those of them that are equal in these columns of the order, in order."""
        at = self._at(places)
        rest = [o.sort() for o in self.order if not (_goes_up(at) and o in at)]
        return Window.partitionBy(*map(named, (*self.within, *(o.ref.name for o in at)))).orderBy(*rest, *self.ties)

    def sorted_again(self, df: DataFrame, places: Collection[str]) -> DataFrame:
        """The rows in the order of `each`, for a kernel: a window over `each_place` has sorted them by these columns, upwards."""
        at = self._at(places)
        if _goes_up(at) and at == list(self.order[: len(at)]):
            return df
        return df.sortWithinPartitions(*map(named, self.within), *(o.sort() for o in self.order), *self.ties)

    def _at(self, places: Collection[str]) -> list[Order]:
        return [o for o in self.order if o.ref.name in places]


def _goes_up(order: Sequence[Order]) -> bool:
    return all(o.ascending and o.nulls_first for o in order)


def last_before(value: str, runs: Runs) -> Column:
    """What the last row before it that has something there has. `value` is SQL text. `last` would copy it twice for each row, this once."""
    return expression(f"lag({value}) IGNORE NULLS").over(runs.each())


def in_runs(df: DataFrame, keys: Sequence[Ref], order: Sequence[Order], ties: Sequence[Column] = ()) -> Runs:
    """These rows. Keys that only Spark can compare are left to the window's sort alone."""
    names = tuple(dict.fromkeys(k.name for k in keys))
    if not all(direct(k.type) for k in keys):
        return Runs(df, names, tuple(order), tuple(ties))
    df, within = sorted_runs(df, names, rising(order[0]))
    return Runs(df, tuple(within), tuple(order), tuple(ties))

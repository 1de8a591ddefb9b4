"""The Python API: each function over a DataFrame, with its options as keyword arguments. Derived from the SPECs."""

from __future__ import annotations

import datetime
import inspect
import keyword
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamtime.describe import wrapped
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call import Table, Value, bind
from streamtime.sql.spec import Spec

SQL_TYPES: dict[type, str] = {
    str: "STRING",
    bool: "BOOLEAN",
    int: "INT",
    float: "DOUBLE",
    datetime.timedelta: "INTERVAL DAY TO SECOND",
    list: "ARRAY",
    tuple: "ARRAY",
    type(None): "VOID",
}


def spelled(option: str) -> str:
    """The name of an option in Python: `from_` for `from`, which is a word of the language."""
    return f"{option}_" if keyword.iskeyword(option) else option


class TableFunction:
    """A function of the pack, over a DataFrame: `f(df, keys=["k"], order_by=["ts"], ..)`; a join is over two, `f(left, right, ..)`.

    Options are those of the SQL call; intervals are `datetime.timedelta`, expressions are SQL strings. Raises CallError at once.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.__name__ = self.__qualname__ = spec.name.lower()
        self.__doc__ = f"{spec.summary}\n\n    {wrapped(spec)}\n\n{spec.page.partition(chr(10))[2].strip()}\n"
        kinds = inspect.Parameter
        tables = spec.inputs if spec.tables > 1 else ["df"] * spec.tables
        self._over: list[tuple[str, type]] = [(name, DataFrame) for name in tables] or [("spark", SparkSession)]
        parameters = [inspect.Parameter(name, kinds.POSITIONAL_ONLY, annotation=kind) for name, kind in self._over]
        parameters += [inspect.Parameter(name, kinds.POSITIONAL_OR_KEYWORD) for name in spec.positional]
        others = [o for o in spec.options if o.name not in spec.positional]
        parameters += [inspect.Parameter(spelled(o.name), kinds.KEYWORD_ONLY, default=o.default) for o in others]
        self.__signature__ = inspect.Signature(parameters, return_annotation=DataFrame)

    def __call__(self, /, *given: Any, **options: Any) -> DataFrame:
        """The function over the DataFrames that it takes, or in a session where it takes no rows, as a DataFrame."""
        over, leading = given[: len(self._over)], given[len(self._over) :]
        names = {spelled(o.name): o.name for o in self.spec.options}
        named = [*((None, v) for v in leading), *((names.get(n, n), v) for n, v in options.items())]
        values = [(n, Value(v, SQL_TYPES.get(type(v), type(v).__name__), repr(v))) for n, v in named if v is not None]
        tables, session = [], next(iter(over), None)
        if self.spec.tables:
            tables, session = [Table(df) for df in over], over[0].sparkSession if over else None
        return self.spec.plan(bind(self.spec, tables, values, session))

    def __repr__(self) -> str:
        return f"<streamtime function {self.spec.name}>"


_BY_NAME = {s.name: TableFunction(s) for s in FUNCTIONS if s.leading}

deduplicate = _BY_NAME["DEDUPLICATE"]
distinct_in_window = _BY_NAME["DISTINCT_IN_WINDOW"]
sessionize = _BY_NAME["SESSIONIZE"]
session_updates = _BY_NAME["SESSION_UPDATES"]
window_updates = _BY_NAME["WINDOW_UPDATES"]
suppress_until_close = _BY_NAME["SUPPRESS_UNTIL_CLOSE"]
suppress_until_time_limit = _BY_NAME["SUPPRESS_UNTIL_TIME_LIMIT"]
as_of_join = _BY_NAME["AS_OF_JOIN"]
versions = _BY_NAME["VERSIONS"]
table_history = _BY_NAME["TABLE_HISTORY"]

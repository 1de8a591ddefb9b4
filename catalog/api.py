"""The Python API: each function over a DataFrame, with its options as keyword arguments. Derived from the SPECs."""

from __future__ import annotations

import datetime
import inspect
from typing import Any

from pyspark.sql import DataFrame

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


class TableFunction:
    """A function of the pack, over a DataFrame: `f(df, keys=["k"], order_by=["ts"], ..)`; a join is over two, `f(left, right, ..)`.

    Options are those of the SQL call; intervals are `datetime.timedelta`, expressions are SQL strings. Raises CallError at once.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.__name__ = self.__qualname__ = spec.name.lower()
        self.__doc__ = f"{spec.summary}\n\n    {wrapped(spec)}\n\n{spec.page.partition(chr(10))[2].strip()}\n"
        keyword = inspect.Parameter.KEYWORD_ONLY
        names = ("df",) if spec.tables == 1 else ("left", "right")
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY, annotation=DataFrame) for n in names]
        parameters += [inspect.Parameter(o.name, keyword, default=o.default) for o in spec.options]
        self.__signature__ = inspect.Signature(parameters, return_annotation=DataFrame)

    def __call__(self, /, *frames: DataFrame, **options: Any) -> DataFrame:
        """The function over the DataFrames that it takes, as a DataFrame."""
        values = [(n, Value(v, SQL_TYPES.get(type(v), type(v).__name__), repr(v))) for n, v in options.items() if v is not None]
        session = frames[0].sparkSession if frames else None
        return self.spec.plan(bind(self.spec, [Table(df) for df in frames], values, session))

    def __repr__(self) -> str:
        return f"<streamtime function {self.spec.name}>"


_BY_NAME = {s.name: TableFunction(s) for s in FUNCTIONS if s.tables}

deduplicate = _BY_NAME["DEDUPLICATE"]
distinct_in_window = _BY_NAME["DISTINCT_IN_WINDOW"]
sessionize = _BY_NAME["SESSIONIZE"]
session_updates = _BY_NAME["SESSION_UPDATES"]
window_updates = _BY_NAME["WINDOW_UPDATES"]
suppress_until_close = _BY_NAME["SUPPRESS_UNTIL_CLOSE"]
suppress_until_time_limit = _BY_NAME["SUPPRESS_UNTIL_TIME_LIMIT"]
as_of_join = _BY_NAME["AS_OF_JOIN"]

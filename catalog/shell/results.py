"""Query results as rendering wants them. Spark itself writes the values, so that they read as SQL has them, in the session's time zone."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streamtime.shell.rendering import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark leaves nulls out and cuts time to milliseconds unless told otherwise
NULLS = "map('ignoreNullFields', 'false')"
OBJECT = r"""to_json(struct(*), map('ignoreNullFields', 'false',
    'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSS')) AS json"""


MOST = 2**31 - 2  # Spark counts in 32 bits, and one row more is asked for


def row_limit(text: str) -> int | None:
    """How many rows are to be shown, as people write it; None for all.

    Raises:
        ValueError: with what is expected.
    """
    if text.lower() in ("none", "all"):
        return None
    if not text.isdecimal() or not 0 < int(text[:99]) <= MOST:
        raise ValueError(f"expected a number above zero, at most {MOST:,}, or none for all, got {text[:99] or 'nothing'}")
    return int(text)


class Limited:
    """The first `limit` items of an iterator, and then whether there are `more`."""

    def __init__(self, items: Iterator[tuple[str | None, ...]], limit: int | None) -> None:
        self.items, self.limit = items, limit
        self.count = 0
        self.more = False

    def __iter__(self) -> Iterator[tuple[str | None, ...]]:
        """Counts as it goes."""
        for item in self.items if self.limit is None else itertools.islice(self.items, self.limit):
            self.count += 1
            yield item
        self.more = self.limit is not None and next(self.items, None) is not None


def texts(df: DataFrame, limit: int | None, spool: Path | None = None) -> tuple[Result, Limited]:
    """A result as text. Rows are computed when they are asked for; all of them by way of files in `spool`, see `_rows`."""
    from pyspark.sql.types import BinaryType, NumericType

    kinds = [field.dataType for field in df.schema.fields]
    cells = [f"hex(c{i})" if isinstance(k, BinaryType) else f"CAST(c{i} AS STRING)" for i, k in enumerate(kinds)]
    renamed = df.toDF(*(f"c{i}" for i in range(len(kinds))))  # names may be equal or odd
    lines = _lines(renamed.selectExpr(f"to_json(array({', '.join(cells)}), {NULLS}) AS json"), limit, spool)
    rows = Limited((tuple(json.loads(line)) for line in lines), limit)
    return Result(tuple(df.columns), rows, tuple(isinstance(k, NumericType) for k in kinds)), rows


def json_texts(df: DataFrame, limit: int | None, spool: Path | None = None) -> Limited:
    """Each row as a JSON object with the types that JSON has: numbers, booleans, nested arrays and objects.

    Raises:
        ValueError: two columns have one name.
    """
    twice = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if twice:
        raise ValueError(f"as JSON, each column needs a name of its own, and `{twice[0]}` is there twice. Name one with AS.")
    return Limited(((line,) for line in _lines(df.selectExpr(OBJECT), limit, spool)), limit)


def _lines(df: DataFrame, limit: int | None, spool: Path | None) -> Iterator[str]:
    """The values of a DataFrame with one column of text, each on one line.

    All rows of a local session go through files: the JVM would have to hold whole partitions otherwise, and may die of it.
    """
    if limit is not None:
        yield from (row[0] for row in df.take(limit + 1))
    elif spool is None:
        yield from (row[0] for row in df.toLocalIterator())
    else:
        from streamtime.session import in_place

        with tempfile.TemporaryDirectory(dir=spool) as folder:
            df.write.mode("overwrite").text(in_place(Path(folder)), lineSep="\n")
            for part in sorted(Path(folder).glob("part-*")):  # their order is that of the rows
                with part.open(encoding="utf-8", newline="\n") as file:
                    yield from (line.removesuffix("\n") for line in file)

"""What the peers of `peers.py` are asked: the questions, a small input that is nasty, and how two answers are compared. Knows no engine."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
WITHIN, GAP, SIZE = 6 * HOUR, 30 * MINUTE, HOUR  # microseconds
FIRST_WITHIN, SESSIONS, WINDOWS = "deduplicate, within 6 hours", "sessions, each row", "final windows of an hour"
FIRST, FINAL_SESSIONS, FINAL_WINDOWS = "deduplicate, for ever", "final sessions", "final windows of an hour"
BATCH, STREAM = (FIRST_WITHIN, SESSIONS, WINDOWS), (FIRST, FINAL_SESSIONS, FINAL_WINDOWS)
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("off", pa.int64()), ("x", pa.float64())])
CLOSER = -1  # the key of one last row of a stream, far behind all others, so that their windows are closed; no answer is about it
NAN = float("nan")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int | None, int | None, int | None, float | None]


def nasty_rows() -> list[Row]:
    """NULL in every role, ties, repeated rows, bounds to the microsecond, NaN, the first and the last year, a hot key."""
    start = 1_700_000_000 * SECOND
    first, last = ((datetime(*day, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) for day in ((1, 1, 1), (9999, 12, 31)))
    rows: list[Row] = [
        (1, start, 1, 0.5), (1, start, 1, 0.5), (1, start, None, 1.5), (1, start, 0, None), (1, start, 0, NAN),
        (1, start + WITHIN, 2, 1.0), (1, start + WITHIN + 1, 4, 2.0), (1, start + WITHIN + 1, 3, 9.0),
        (1, start + 2 * WITHIN + 1, 5, None), (1, start + 2 * WITHIN + 2, 6, NAN),
        (None, start, 1, 1.0), (None, start, 1, 1.0), (None, None, 2, None), (2, None, 3, 1.0), (None, start + GAP, None, None),
        (3, start, None, None), (3, start + GAP, None, None), (3, start + 2 * GAP + 1, 7, -0.0), (3, start + 3 * GAP, 8, NAN),
        (4, first, 1, 1.0), (4, first + GAP, 2, 2.0), (4, last, 3, 3.0), (4, last + GAP + 1, 4, 4.0),
        (-(2**63), -1, 1, 1.0), (-(2**63), 0, 2, -1.0), (-(2**63), -SIZE, 3, NAN), (2**63 - 1, SIZE, -1, float("-inf")),
    ]  # fmt: skip
    rows += [(9, start + i * i * 37 % 4000 * 10 * SECOND, i, float(i % 7)) for i in range(400)]
    return [rows[i * 271 % len(rows)] for i in range(len(rows))]


def stream_rows() -> list[Row]:
    """In order of arrival: times in ties and up to minutes out of order, all of milliseconds, NULL in every role but the time, no NaN, no tie for a key's first; then the closer."""
    start = 1_700_000_000 * SECOND
    rows: list[Row] = []
    for i in range(600):
        step = i // 20 * 20 + i * 7 % 20  # out of order within twenty, of which each micro-batch has all
        key = None if i % 31 == 0 else 0 if i % 3 == 0 else i * i % 23
        rows.append((key, start + step * 20 * SECOND, None if i % 17 == 0 else i, (None, -float("inf"), i / 8, -0.0)[i % 4]))
    edge = start + 600 * 20 * SECOND
    rows += [(50, edge, 1, 1.0), (50, edge + GAP, 2, 3.0), (50, edge + GAP, 0, 2.0), (51, edge, 3, 4.0), (51, edge + GAP + 1000, 4, 5.0)]
    return [*rows, (CLOSER, edge + 100 * HOUR, 0, 0.0)]


def table(rows: list[Row]) -> pa.Table:
    columns = [pa.array(values, field.type, from_pandas=False) for values, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.table(columns, schema=SCHEMA)


def write_files(rows: pa.Table, folder: Path, sizes: list[int]) -> None:
    """Parquet files of so many rows each, one written after the other by what their dates say: a stream of Spark goes by these."""
    folder.mkdir(parents=True)
    start = 0
    for number, size in enumerate(sizes):
        file = folder / f"{number:04}.parquet"
        pq.write_table(rows.slice(start, size), file, coerce_timestamps="us")
        os.utime(file, (1_700_000_000 + number,) * 2)
        start += size


def told(answer: pa.Table) -> list[str]:
    """The rows of an answer as text, sorted: times in microseconds, whatever type an engine has for times, numbers and NaN alike."""
    columns = []
    for column in answer.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        columns.append([shown(value) for value in column.to_pylist()])
    return sorted(", ".join(values) for values in zip(*columns, strict=True))


def shown(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def difference(ours: list[str], theirs: list[str]) -> str | None:
    """The first row that only one of two answers has, or None if they are the same."""
    here, there = Counter(ours), Counter(theirs)
    missing, more = sorted((here - there).elements()), sorted((there - here).elements())
    if not missing and not more:
        return None
    parts = [f"it lacks {len(missing)} rows, such as ({missing[0]})"] if missing else []
    parts += [f"it has {len(more)} rows that we have not, such as ({more[0]})"] if more else []
    return "; ".join(parts)

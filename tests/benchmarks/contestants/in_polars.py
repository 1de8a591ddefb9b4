"""The idioms of Polars for the questions in batch: expressions over groups, and a loop where a row's fate hangs on one before it."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from .questions import FIRST_WITHIN, GAP, SESSIONS, SIZE, WINDOWS, WITHIN

COLUMNS = ("k", "ts", "off", "x")


def deduplicated(rows: pl.LazyFrame) -> pl.LazyFrame:
    """For each row the place of the first that lies more than six hours after it; from the first row of each key on, follow it."""
    timed = rows.filter(pl.col("ts").is_not_null())
    ordered = timed.filter(pl.col("k").is_not_null()).sort(COLUMNS, nulls_last=False).with_row_index("place")
    starts = ordered.select("k", "ts", "place").unique(("k", "ts"), keep="first", maintain_order=True).sort("ts")
    ahead = ordered.select("k", "place", pl.col("ts") + timedelta(microseconds=WITHIN)).sort("ts")
    met = ahead.join_asof(starts, on="ts", by="k", strategy="forward", allow_exact_matches=False, suffix="_next", check_sortedness=False)
    whole, following = pl.collect_all([ordered, met.sort("place").select("place_next")])
    following_of = following["place_next"]
    at = whole.filter(pl.col("k").is_first_distinct())["place"]
    kept = [at]
    while len(at := following_of.gather(at).drop_nulls()):
        kept.append(at)
    return pl.concat([whole[pl.concat(kept)].lazy().select(COLUMNS), timed.filter(pl.col("k").is_null()).select(COLUMNS)])


def sessionized(rows: pl.LazyFrame) -> pl.LazyFrame:
    ordered = rows.filter(pl.col("ts").is_not_null(), pl.col("k").is_not_null()).sort("k", "ts")
    opens = (pl.col("ts") - pl.col("ts").shift(1).over("k") > timedelta(microseconds=GAP)).fill_null(True)
    session = pl.col("ts").min().over("k", "n").alias("session_start"), pl.col("ts").max().over("k", "n").alias("session_end")
    return ordered.with_columns(n=opens.cum_sum()).select(*COLUMNS, *session)


def windows(rows: pl.LazyFrame) -> pl.LazyFrame:
    """A sum of nothing is 0 here, and NaN is no number: both as in SQL instead."""
    known = rows.filter(pl.col("ts").is_not_null(), pl.col("k").is_not_null())
    total = pl.when(pl.col("off").count() > 0).then(pl.col("off").sum())
    grouped = known.group_by("k", window_start=pl.col("ts").dt.truncate("1h")).agg(n=pl.len(), total=total, high=pl.col("x").nan_max())
    end = pl.col("window_start") + timedelta(microseconds=SIZE)
    return grouped.select("k", "window_start", end.alias("window_end"), "n", "total", "high")


IDIOMS = {FIRST_WITHIN: deduplicated, SESSIONS: sessionized, WINDOWS: windows}

"""The options of AS_OF_JOIN."""

from __future__ import annotations

from dataclasses import replace

from streamtime.sql.as_of.lookup import BACKWARD, FORWARD, NEAREST
from streamtime.sql.call.kinds import Choice, Duration, Flag, Text, Texts
from streamtime.sql.call.spec import CLOCK, CLOCK_BY, COMMON, Option

OPTIONS = (
    Option(
        "join_type",
        Choice(words=("inner", "left")),
        "'inner': a row without a match is dropped; 'left': it stays, with nulls",
        default="inner",
        default_text="'inner'",
    ),
    Option(
        "on",
        Text(),
        "the condition of the join, in place of PARTITION BY: equalities of the sides are the keys, the rest filters what was picked, "
        "or, with `match`, what can be picked",
    ),
    Option(
        "using",
        Texts(),
        "names of key columns that both sides have; the result has them once, and first",
        values="an array of names of columns",
    ),
    Option(
        "match",
        Text(),
        "the comparison of the times, in place of ORDER BY: 'l.ts >= r.ts' looks back, '<=' ahead; '>' and '<' leave equal times out",
    ),
    Option(
        "history",
        Text(expression=False),
        "the name of the right side's Delta table, to look up in its history: by event time where it declares that it is versioned, "
        "else by commit",
        values="a name in quotes",
    ),
    Option("at", Text(), "with `history`: the time to look up, over the left side's columns"),
    Option(
        "unit",
        Choice(words=("timestamp", "version")),
        "with `history`: whether `at` is a time or the number of a commit",
        default_text="'timestamp'",
    ),
    Option(
        "direction",
        Choice(words=(BACKWARD, FORWARD, NEAREST)),
        "where to look for a match: at or before the row's time, at or after it, or the nearer of both",
        default_text="'backward'",
    ),
    Option("tolerance", Duration(), "how far a match may lie from the row's time, included", default_text="any distance"),
    Option("allow_exact", Flag(), "whether a right row of the very same time matches", default_text="true"),
    Option(
        "ties",
        Choice(words=("last", "first", "error")),
        "which of several right rows with one key and time counts; 'error' fails the query where a match depends on it",
        default_text="'last'",
    ),
    Option("deleted", Text(), "true for right rows that delete their key: from then on nothing matches"),
    Option(
        "arrival",
        Text(),
        "an expression that both sides have, in one common order: a version counts only if it arrived before the row",
    ),
    Option(
        "retention",
        Duration(),
        "with `arrival`, or of two streams: how far the right side's history reaches back from stream time; older rows never existed",
        default_text="unlimited; of two streams it is required",
    ),
    Option(
        "grace",
        Duration(),
        "with `arrival`: how long a left row waits, on the left side's clock, before it is looked up; on a stream, on the watermark",
        default_text="none: at once",
    ),
    Option(
        "at_end",
        Choice(words=("emit", "hold")),
        "with `grace`: what happens to rows that wait when the input ends",
        default_text="'emit'",
    ),
    replace(
        CLOCK,
        help="on a stream, what rows wait by: 'event', the watermark, or 'wall', the time of day, even if both are idle",
    ),
    *(
        replace(CLOCK_BY, help="with `arrival`: runs the clocks separately per value of these, which are among the left keys")
        if o is CLOCK_BY
        else o
        for o in COMMON
        if o.name != "time"
    ),
)

"""A sentence for each row: that of the output, or one made of what the output says, where it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamtime.pictures.meanings import DROPPED, Drawing, DrawnRow, bounds_of, written
from streamtime.sql.syntax.text import duration_in_words


def said(rows: Sequence[DrawnRow], given: Drawing) -> list[str]:
    """A sentence for each of these rows, which are grouped: what became of it, and why."""
    sentences = [row.sentence or _sentence(row, given) for row in rows]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


def _sentence(row: DrawnRow, given: Drawing) -> str:
    if row.outcome in DROPPED and "kept_time" not in row.times:
        return f"Dropped: it {DROPPED[row.outcome]}."
    for column, sentence in SENTENCES.items():
        if column in row.times:
            return sentence(row, given)
    return "Passes." if row.outcome is None else f"{row.outcome[:1].upper()}{row.outcome[1:]}."


def _of_kept(row: DrawnRow, given: Drawing) -> str:
    kept, within = row.times["kept_time"], given.options.get("within")
    limit = "`within` has no end" if within is None else f"`within` is {duration_in_words(within)}"
    limit += f", `at_most` {duration_in_words(given.options['at_most'])}" if given.options.get("at_most") is not None else ""
    if row.at is None:
        return "Dropped: it has no time."
    if kept is not None and kept == row.at:
        return f"Dropped as a duplicate: the kept row has the very same time, and {limit}."
    if kept is not None:
        apart = f"{duration_in_words(abs(row.at - kept))} {'after' if row.at > kept else 'before'}"
        return f"Dropped as a duplicate: it lies {apart} the kept row of {written(given, kept)[0]}, and {limit}."
    if not row.has_key:
        return "Passes: a null in its key makes it nobody's duplicate."
    return f"Passes: it lies within no kept row's reach; {limit}."


def _of_window(row: DrawnRow, given: Drawing) -> str:
    bounds = "; ".join("from {} to {}".format(*written(given, *pair)) for pair in bounds_of(row, "window_start", "window_end"))
    return f"Passes: it is the first row of its key in the window {bounds}." if bounds else "Passes."


def _of_version(row: DrawnRow, given: Drawing) -> str:
    start, end = row.times["valid_from"], row.times.get("valid_to")
    if start is None:
        return "Passes."
    if row.deleted:
        until = "" if end is None else f", until {written(given, end)[0]}"
        return f"A deletion: from {written(given, start)[0]} on there is no version of its key{until}."
    return "A version, valid from {} to {}.".format(*written(given, start, end))


def _of_lookup(row: DrawnRow, given: Drawing) -> str:
    version = row.times["match_at"]
    if version is None or row.at is None:
        return "Passes, without a match."
    side = "before it" if version < row.at else "after it"
    apart = "of the very same time" if version == row.at else f"{duration_in_words(abs(row.at - version))} {side}"
    return f"Finds the version of {written(given, version)[0]}, {apart}."


SENTENCES: dict[str, Callable[[DrawnRow, Drawing], str]] = {
    "kept_time": _of_kept,
    "window_start": _of_window,
    "valid_from": _of_version,
    "match_at": _of_lookup,
}

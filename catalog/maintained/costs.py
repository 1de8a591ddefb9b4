"""What a run will cost, from what runs before it cost: so the cheaper way is taken.

An incremental run takes a fixed time, which is of its small jobs and of looking through the tables, and more for each row that it writes.
A run says something of that part alone which is the larger one of it: a run that changed one row does not say what a row costs.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamtime.maintained.receipt import Receipt

FIXED = 2.0  # seconds of small jobs; until a run was seen
SHARE = 0.08  # of a full run's time: to look through the tables for the rows of units; until a run was seen
HEAVY = 2.5  # how much more a row costs that is written among others than one that is written with all; `factor` corrects it
MOST = 1.5  # how many times a full run's time all that is written takes, at most


def predicted(known: Mapping[str, float], size: float, share: float) -> dict[str, float]:
    """Seconds for each way. `size` are the bytes that the query reads, `share` is the part of the target that is computed anew.

    `known` are the costs of runs before: `full_seconds` of `full_size`; `fixed` seconds; `factor`, by how much rows cost more than this.
    """
    if "full_seconds" not in known:
        return {}
    full = _full(known, size)
    fixed, each = _parts(known, full, share)
    return {"incremental": round(fixed + each, 3), "full": round(full, 3)}


def learned(known: Mapping[str, float], run: Receipt) -> dict[str, float]:
    """The costs, with those of the run that they were known before. `size` are the bytes that it read, `rows` those of the target."""
    if run.way == "full":
        return {**known, "full_seconds": run.seconds, "full_size": known["size"], "rows": run.inserted}
    if run.way != "incremental" or "full_seconds" not in known or "rows" not in known:
        return dict(known)
    full = _full(known, known.get("size", known["full_size"]))
    fixed, each = _parts(known, full, share_of(run.touched, known["rows"]))
    costs = {**known, "rows": known["rows"] + run.inserted - run.removed}
    if each < fixed:
        seen = max(0.1, run.seconds - each)
        return {**costs, "fixed": round(0.5 * (known.get("fixed", seen) + seen), 3)}
    seen = known.get("factor", 1.0) * max(0.0, run.seconds - fixed) / each
    return {**costs, "factor": round(min(20.0, max(0.05, 0.5 * (known.get("factor", seen) + seen))), 3)}


def share_of(touched: int | None, rows: float) -> float:
    """The part of the target that is computed anew."""
    return min(1.0, (touched or 0) / max(rows, 1))


def _full(known: Mapping[str, float], size: float) -> float:
    return known["full_seconds"] * max(size / max(known["full_size"], 1), 0.01)


def _parts(known: Mapping[str, float], full: float, share: float) -> tuple[float, float]:
    """Of an incremental run, the seconds that it takes whatever it changes, and those of the rows."""
    return known.get("fixed", FIXED + SHARE * full), full * min(MOST, HEAVY * share) * known.get("factor", 1.0)

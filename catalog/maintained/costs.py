"""What a run will cost, from what runs before it cost: so the cheaper way is taken."""

from __future__ import annotations

from collections.abc import Mapping

from streamtime.maintained.receipt import Receipt

FIXED = 2.0  # seconds that an incremental run takes, whatever it does; until one was seen
SHARE = 0.08  # of a full run's time: to look through the tables for the rows of units
HEAVY = 2.5  # how much more a row costs that is written among others than one that is written with all


def predicted(known: Mapping[str, float], size: float, share: float) -> dict[str, float]:
    """Seconds for each way. `size` are the bytes that the query reads, `share` is the part of the target that is computed anew.

    `known` are the costs of runs before: `full_seconds` of `full_size`, and `factor`, by how much incremental runs took longer than this.
    """
    if "full_seconds" not in known:
        return {}
    full = known["full_seconds"] * max(size / max(known["full_size"], 1), 0.01)
    incremental = (FIXED + full * min(1.5, SHARE + HEAVY * share)) * known.get("factor", 1.0)
    return {"incremental": round(incremental, 3), "full": round(full, 3)}


def learned(known: Mapping[str, float], run: Receipt) -> dict[str, float]:
    """The costs, with those of the run that they were known before. `size` are the bytes that it read, `rows` those of the target."""
    if run.way == "full":
        return {**known, "full_seconds": run.seconds, "full_size": known["size"], "rows": run.inserted}
    if run.way == "incremental" and "rows" in known:
        known = {**known, "rows": known["rows"] + run.inserted - run.removed}
    if run.way != "incremental" or not run.predicted:
        return dict(known)
    factor = known.get("factor", 1.0)
    seen = factor * run.seconds / max(run.predicted["incremental"], 0.001)
    return {**known, "factor": round(min(20.0, max(0.05, 0.5 * factor + 0.5 * seen)), 3)}

"""What a run will cost, from what runs before it cost: so the cheaper way is taken.

Until a way is chosen, a run has looked into logs and found what changed; that time is spent, whatever comes. What follows of an incremental
run is made of three parts: small jobs, which are as slow as the run's own beginning (`setup`) was, in a young process or on a busy machine;
looks through the tables, a part of what a full run takes; and the rows that are written.

Runs of one kind cost alike: those of few units, which a condition names; of many; and either, where units are computed anew. Of each kind
it is learned how much of the three parts there is, as a Kalman filter does: a run corrects that of which less is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamtime.maintained.receipt import Receipt

SMALL_JOBS = 1.5  # times what a run's beginning took; until a run of its kind was seen, as all of these
LOOKED = {"few": 0.08, "many": 0.3}  # of a full run's time: to look through the tables
HEAVY = 2.5  # how much more a row costs that is written among others than one that is written with all
MOST = 0.6  # the part of the target from which on nothing is dearer
UNSURE = np.array([0.7, 2.0, 1.5])  # how far from these first guesses the parts may be, beside themselves
DRIFT = 0.1  # how far they move from one run to the next, likewise
NOISE = 0.2  # how far one run is from another like it, likewise
LEAST = 0.005


@dataclass(frozen=True)
class Estimate:
    """Of the runs of one kind: how much of each part there is, and how sure that is, as variances."""

    parts: Any
    unsure: Any

    def corrected(self, given: Any, seen: float) -> Estimate:
        """With what one run took: so many seconds, where a whole of each part would have taken as many as are given."""
        unsure = self.unsure + np.diag((DRIFT * self.parts) ** 2)
        ahead = unsure @ given
        gain = ahead / (given @ ahead + (NOISE * max(seen, 0.1)) ** 2)
        return Estimate(np.maximum(LEAST, self.parts + gain * (seen - given @ self.parts)), unsure - np.outer(gain, ahead))


def kind_of(touched: int | None, few: int, anew: bool) -> str:
    """Which kind of run it is."""
    return ("few" if (touched or 0) <= few else "many") + (" anew" if anew else "")


def predicted(known: Mapping[str, float], size: float, share: float, kind: str, setup: float, spent: float) -> dict[str, float]:
    """Seconds for each way, those that are spent already included.

    `size` are the bytes that the query reads, `share` is the part of the target that is written, `setup` what the run's beginning took.
    `known` are the costs of runs before.
    """
    if "full_seconds" not in known:
        return {}
    full = _full(known, size)
    rest = float(_given(full, share, setup) @ _estimate(known, kind).parts)
    return {"incremental": round(spent + rest, 3), "full": round(spent + full, 3)}


def learned(known: Mapping[str, float], run: Receipt, few: int) -> dict[str, float]:
    """The costs, with those of the run that they were known before, which has its own `size` (bytes that it read) and `setup` in them.
    `rows` are those of the target."""
    rest = max(0.0, run.seconds - run.decided)
    if run.way == "full":
        return {**known, "full_seconds": rest, "full_size": known["size"], "rows": run.inserted}
    if run.way != "incremental" or not {"full_seconds", "rows", "setup"} <= known.keys():
        return dict(known)
    kind = kind_of(run.touched, few, run.added < (run.touched or 0))
    given = _given(_full(known, known.get("size", known["full_size"])), share_of(run.touched, known["rows"]), known["setup"])
    estimate = _estimate(known, kind).corrected(given, rest)
    numbers = [*estimate.parts, *estimate.unsure.ravel()]
    told = {f"{kind} {i}": round(float(number), 6) for i, number in enumerate(numbers)}
    return {**known, "rows": known["rows"] + run.inserted - run.removed, **told}


def share_of(touched: int | None, rows: float) -> float:
    """The part of the target that is written."""
    return min(1.0, (touched or 0) / max(rows, 1))


def _full(known: Mapping[str, float], size: float) -> float:
    return known["full_seconds"] * max(size / max(known["full_size"], 1), 0.01)


def _given(full: float, share: float, setup: float) -> Any:
    """What a whole of each part would take."""
    return np.array([setup, full, full * min(share, MOST)])


def _estimate(known: Mapping[str, float], kind: str) -> Estimate:
    guess = np.array([SMALL_JOBS, LOOKED[kind.split()[0]], HEAVY])
    numbers = [known.get(f"{kind} {i}") for i in range(len(guess) * (1 + len(guess)))]
    if None in numbers:
        return Estimate(guess, np.diag((UNSURE * guess) ** 2))
    return Estimate(np.array(numbers[: len(guess)]), np.array(numbers[len(guess) :]).reshape(len(guess), -1))

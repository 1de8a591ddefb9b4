"""What one evaluation of a query leaves behind, and in which order it goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamtime.maintained.units import Evaluation


def test_what_reads_another_goes_before_it() -> None:
    """Spark plans anew what is cached of a view that is dropped, or of what is freed: a sixth of a run over small tables."""
    gone: list[str] = []

    def frame(name: str) -> Any:
        return SimpleNamespace(unpersist=lambda: gone.append(name))

    session = SimpleNamespace(catalog=SimpleNamespace(dropTempView=gone.append))
    tables: Any = {"t": SimpleNamespace(forget=lambda: gone.append("changes of t"))}
    query: Any = None
    evaluation = Evaluation(session, query, tables, ["view"], [frame("units"), frame("rows of units")])
    evaluation.close()
    assert gone == ["rows of units", "units", "changes of t", "view"]
    evaluation.forget()
    assert gone[4:] == ["changes of t"]  # which has nothing more to free

"""Which call a plan's rows come from, where they are all of its rows: so that two calls, one over the other, can be planned as one."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamtime.door.inputs import items
from streamtime.sql.call.spec import Spec

LAST = 16  # results that are remembered: an inner call is planned right before the one around it, of the same query


class Results:
    """The latest results of those calls that others can be planned with, as the analyzer took them.

    A result is known again by the operator on top of it: by the last column that it computes, or by the inputs that it defines. Spark
    numbers each of these once. Views are not looked into: what is in them may have been planned under other settings.
    """

    def __init__(self) -> None:
        self._latest: deque[tuple[Any, Spec, Any]] = deque(maxlen=LAST)  # plans, with the calls that they were made for

    def remember(self, result: Any, spec: Spec, arguments: Any) -> Any:
        """The result, remembered."""
        if spec.finals is not None:
            self._latest.append((result, spec, arguments))
        return result

    def call_of(self, plan: Any) -> tuple[Spec, Any] | None:
        """The call that has just these rows as its result, with its arguments; columns may be left out, or stand in another order."""
        latest = list(self._latest)
        sought = _known_by(_below_names(plan)) if latest else None
        return next(((spec, given) for result, spec, given in reversed(latest) if sought and _known_by(result) == sought), None)

    def clear(self) -> None:
        """Let go of all."""
        self._latest.clear()


def _below_names(plan: Any) -> Any:
    """A plan without what only names its rows, or chooses columns."""
    while True:
        kind = plan.nodeName()
        if kind != "SubqueryAlias" and not (kind == "Project" and all(map(_is_column, items(plan.projectList())))):
            return plan
        plan = plan.child()


def _is_column(expression: Any) -> bool:
    return bool(expression.nodeName() == "AttributeReference")


def _known_by(plan: Any) -> tuple[str, int] | None:
    """What tells an operator from all others. None: nothing does."""
    kind = plan.nodeName()
    if kind == "WithCTE":
        return kind, plan.cteDefs().head().id()
    columns = list(items(plan.projectList() if kind == "Project" else plan.output()))
    made = next((c for c in reversed(columns) if kind != "Project" or c.nodeName() == "Alias"), None)
    return None if made is None else (kind, made.exprId().id())

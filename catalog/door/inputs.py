"""What a plan function sees of a TABLE argument: a CTE reference, whose definition is empty for now.

So a plan may use its input several times, and whoever has the plan says afterwards what the reference stands for: the analyzer door the
real rows, `streamtime.compile` a piece of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamtime.sparks import SparkVersion

LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


class Inputs:
    """Makes references and definitions of CTEs as that Spark has them."""

    def __init__(self, jvm: Any, version: SparkVersion) -> None:
        logical = jvm
        for part in LOGICAL.split("."):
            logical = getattr(logical, part)
        self._with, self._reference, self._definition = logical.WithCTE, logical.CTERelationRef, logical.CTERelationDef
        self._rows = logical.LocalRelation
        self._seq, self._none = jvm.org.apache.spark.api.python.PythonUtils.toSeq, jvm.scala.Option.empty()
        self.new_id = getattr(getattr(logical, "CTERelationDef$"), "MODULE$").newId
        self._of_definition = (self._none,) if version.recursion_limits else ()
        self._of_reference = (self._none, False) if version.recursion_limits else ()

    def empty(self, plan: Any, cte: int) -> Any:
        """A reference with the columns of a plan, and without its rows."""
        output, streaming = plan.output(), plan.isStreaming()
        rows = self._rows(output, self._seq([]), streaming, self._none)
        return self.defined(self._reference(cte, True, output, streaming, self._none, False, *self._of_reference), [(cte, rows)])

    def defined(self, plan: Any, definitions: list[tuple[int, Any]]) -> Any:
        """A plan, and what the references in it stand for."""
        made = [self._definition(rows, cte, self._none, False, *self._of_definition) for cte, rows in definitions]
        return self._with(plan, self._seq(made))


def items(seq: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    for index in range(seq.length()):
        yield seq.apply(index)

"""The pairs of expressions by which rows of both sides belong together."""

from __future__ import annotations

from dataclasses import dataclass

from streamtime.sql.call.values import Expression
from streamtime.sql.syntax.conditions import Conjunct


@dataclass(frozen=True)
class KeyPair:
    """A pair of expressions that a match has equal, and the comparison that said so, if one did."""

    left: Expression
    right: Expression
    written: Conjunct | None = None

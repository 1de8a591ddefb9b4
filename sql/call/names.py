"""Names of columns: what an identifier names, and when two names are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

RESERVED = "__streamtime_"  # of columns that calls add for themselves
SETTING = "spark.sql.caseSensitive"
PART = r"`(?:[^`]|``)+`|(?!(?:\d+(?:[eE]\d+)?(?:[LSYDF]|BD)?)\b)\w+"  # digits alone are a number
QUALIFIED = re.compile(rf"\s*(?:{PART})(?:\s*\.\s*(?:{PART}))*\s*")


def pieces(text: str) -> list[str]:
    """The names that SQL text gives with dots between them, as written; none where it is more, or less, than names."""
    return re.findall(PART, text) if QUALIFIED.fullmatch(text) else []


def parts(text: str) -> list[str]:
    """These names, without their quotes."""
    return [p[1:-1].replace("``", "`") if p[0] == "`" else p for p in pieces(text)]


def plain(text: str) -> str | None:
    """The name that SQL text gives, if that is all it does: `a b` in backquotes, but not a.b, which is a field or a table's column."""
    names = parts(text)
    return names[0] if len(names) == 1 else None


def is_reserved(name: str) -> bool:
    """Whether a column could be taken for one of ours."""
    return name.lower().startswith(RESERVED)


@dataclass(frozen=True)
class Names:
    """When two names are the same: for Spark, and so here, names that differ in case are, unless the session is case sensitive.

    The session is asked where it matters, and then once: over Spark Connect that is a round trip. Without a session (in a Python UDTF)
    they are the same.
    """

    session: Any = None
    _answers: list[bool] = field(default_factory=list, compare=False, repr=False)

    @property
    def cased(self) -> bool:
        """Whether names that differ in case are different."""
        if not self._answers:
            self._answers.append(self.session is not None and str(self.session.conf.get(SETTING, "false")).lower() == "true")
        return self._answers[0]

    def same(self, one: str, other: str) -> bool:
        """Whether two names are the same."""
        return one == other or (one.lower() == other.lower() and not self.cased)

    def among(self, name: str | None, known: Iterable[str]) -> list[int]:
        """The places of a name among others."""
        return [i for i, other in enumerate(known) if name is not None and self.same(name, other)]

    def find(self, name: str | None, known: Sequence[str]) -> str | None:
        """A name as it is spelled among others: just so, if one of them is; None where there is none."""
        if name in known:
            return name
        return next((known[i] for i in self.among(name, known)), None)

    def twice(self, names: Sequence[str]) -> list[str]:
        """Those that are there more than once, in whatever case."""
        folded = [n.lower() for n in names]
        if len(set(folded)) == len(folded):
            return []
        return [n for n, lower in zip(names, folded, strict=True) if folded.count(lower) > 1 and len(self.among(n, names)) > 1]

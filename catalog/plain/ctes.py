"""The CTEs of a query, while it is made: what stands for their names, what is in them, and at last their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from streamtime.plain import names
from streamtime.plain.expressions import Unprintable
from streamtime.plain.layout import laid_out
from streamtime.plain.parentheses import without_needless
from streamtime.sql.call.names import RESERVED
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source

NAMELESS = re.compile(rf"{RESERVED}(?:cte|text)_\d+")  # what stands for a name, until all columns are known, and for a text of the user's
DEEP = 20  # CTEs that stand on one another; in more of them no `*` is in front of columns, which costs Spark's analyzer a turn
HINT = re.compile(rf"/\*\+ BROADCAST\((?:(?:, )?{NAMELESS.pattern})+\) \*/")  # the names in it are no tokens


class Ctes:
    """Equal queries are one CTE.

    `free` says whether nothing in the statement has a name yet, and `taken` are names of columns, in lower case.
    """

    def __init__(self, free: Callable[[str], bool], taken: AbstractSet[str]) -> None:
        self.made = ""  # of the last query, without its sources
        self.depth = 0  # .. how many CTEs stand on one another, those of its sources included
        self._free, self._taken = free, taken
        self._used: set[str] = set()  # names, of all queries
        self.begin()

    def begin(self) -> None:
        """Begins a query."""
        self._bodies: dict[str, tuple[str, str]] = {}  # a body: what stands for its name, and the columns in its head
        self._inputs: dict[int, str] = {}  # a source: what stands for the CTE's name
        self._texts: dict[str, str] = {}  # of sources, by what stands for them
        self._roles: dict[str, str] = {}  # what stands for a name: what that should be
        self._every: dict[str, str] = {}  # columns: what stands for all of them
        self._last = ""  # what stands for the CTE that has the query's rows

    def named(self, body: str, role: str, head: str = "") -> str:
        """The name of the CTE that is this query."""
        if body not in self._bodies:
            self._bodies[body] = (self.nameless(role), head)
        return self._bodies[body][0]

    def nameless(self, role: str) -> str:
        """What stands for a name: which one is free is known when all columns are."""
        each = f"{RESERVED}cte_{len(self._roles)}"
        self._roles[each] = role
        return each

    def every(self, columns: Sequence[str]) -> str:
        """All columns of the rows below, in front of others: `*`, but in a deep text, of which Spark's analyzer can read so much only."""
        return self._every.setdefault(", ".join(map(quoted, columns)), f"{RESERVED}every_{len(self._every)}")

    def input(self, source: int, text: str, columns: Sequence[str], own: Sequence[str]) -> str:
        """The name of the CTE that has the rows of a source, by its text, and other names for its columns where two have one."""
        stands = f"{RESERVED}text_{source}"
        if any(token.text == "?" for token in Source(text).tokens):  # each has a value of its own, by its place
            if stands not in self._texts and source < max(self._inputs, default=0):
                raise Unprintable("a `?` of one TABLE argument in front of another's; give parameters names, :day")
        else:
            stands = next((each for each, other in self._texts.items() if other == text), stands)
        self._texts[stands] = text
        role, listed = names.input_of(text), ", ".join(map(quoted, columns))
        if columns != own:  # two have one name
            self._inputs[source] = self.named(f"SELECT * FROM {stands}", role, f" ({listed})")
        else:
            self._inputs[source] = self.named(f"SELECT {listed} FROM {stands}", role)
        return self._inputs[source]

    def readings(self, source: int) -> int:
        """How often the last query computes a source, as Spark does it: a CTE is put in wherever it is named."""
        times = Counter({self._last: 1})
        for body, (name, _) in reversed(self._bodies.items()):
            for other in self._named_in(body):
                times[other] += times[name]
        return times[self._inputs.get(source, "")]

    def query(self, columns: str, last: str, result: str, below: int) -> str:
        """A query of columns of the `last` CTE, whose name is to be `result`, below all others; on lines that are indented."""
        self._last = last
        if last == [*self._roles][-1] and last not in self._inputs.values():
            self._roles[last] = result
        self.depth = below + self._depth()
        said = {each: self._name(role) for each, role in self._roles.items()}
        said |= {each: "*" if self.depth <= DEEP else listed for listed, each in self._every.items()}
        texts = [f"    {said[name]}{head} AS (\n{self._said(body, said, 6)}\n    )" for body, (name, head) in self._bodies.items()]
        self.made = "\n".join(body for body, (name, _) in self._bodies.items() if name not in self._inputs.values())
        return "\n".join(("  WITH", ",\n".join(texts), self._said(f"SELECT {columns} FROM {last}", said, 2)))

    def _depth(self) -> int:
        depths = dict[str, int]()
        for body, (name, _) in self._bodies.items():
            depths[name] = 1 + max((depths.get(other, 0) for other in self._named_in(body)), default=0)
        return depths[self._last]

    def _named_in(self, body: str) -> list[str]:
        """What stands for other CTEs in it."""
        return NAMELESS.findall(HINT.sub("", body))

    def _name(self, role: str) -> str:
        """A name that nothing in the statement has, nor a column: it would stand in front of the user's own table, or of a struct."""
        name, number = role, 1
        while not self._free(name) or name in self._used or name in self._taken:
            number += 1
            name = f"{role}_{number}"
        self._used.add(name)
        return name

    def _said(self, body: str, named: dict[str, str], indent: int) -> str:
        """A query with the names of CTEs, on lines, and with a user's text as it is."""
        at, said = 0, ""
        body = HINT.sub(lambda hint: NAMELESS.sub(lambda name: named[name[0]], hint[0]), body)
        for token in (t for t in Source(body).tokens if t.kind == "word" and t.text in named):
            said, at = said + body[at : token.start] + named[token.text], token.end
        lines = laid_out(without_needless(said + body[at:]), indent)
        return next((lines.removesuffix(each) + text for each, text in self._texts.items() if lines.endswith(each)), lines)

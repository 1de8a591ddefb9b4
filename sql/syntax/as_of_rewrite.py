"""AS OF joins in SQL text, as calls of AS_OF_JOIN (rule J1). Text in, text out: what is not such a join stays as it was written.

What is rewritten into what:

    FROM orders o JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.k = p.k
    FROM AS_OF_JOIN(TABLE(SELECT * FROM orders o), TABLE(SELECT * FROM prices AS p), at => 'o.ts', on => 'o.k = p.k',
                    join_type => 'inner', history => 'prices', unit => 'timestamp')

    FROM trades t LEFT ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) USING (symbol)
    FROM AS_OF_JOIN(TABLE(SELECT * FROM trades t), TABLE(SELECT * FROM quotes q), match => 't.ts >= q.ts', using => ARRAY('symbol'),
                    join_type => 'left')

The call takes the place of everything from FROM (or the comma before it) to the end of the condition, so the left side is whatever stood
there: tables, subqueries, other joins, AS OF joins before this one. `VERSION AS OF o.v` gives `unit => 'version'`. EXPLAIN EXTENDED shows
the call, and a view stores it.

AS OF a constant is time travel, the business of Delta Lake, and is left alone, also beside a join of ours. What cannot be a call is refused
in words. The text is read as tokens: no second parser has to understand, or print again, the rest of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from streamtime.sql.syntax.as_of_clauses import Join, Refusal, find
from streamtime.sql.syntax.expressions import is_parameter
from streamtime.sql.syntax.tokens import Source, Span, blank

# The text of anything to rewrite matches, most others do not; and it takes one look at a text, however long
MENTIONED = r"\b(?:OF|ASOF)\b"
_MENTIONED = re.compile(MENTIONED, re.IGNORECASE)

Parameters = Callable[[str], str | None]


@dataclass(frozen=True)
class Rewritten:
    """A text with its AS OF joins as calls; and `plain`, the same text with blanks in place of what makes them AS OF joins.

    Where `text` does not parse, something else is wrong with it: `plain` then has that error at its place in the text as it was written.
    """

    text: str
    plain: str


def rewrite(text: str, parameters: Parameters = lambda _: None, asof: bool = True) -> Rewritten | None:
    """The text with its AS OF joins as calls; None where it has none.

    `parameters` gives the SQL literal of `:name`, for those that end up in a string. Without `asof`, ASOF JOIN is left alone.

    Raises Refusal.
    """
    if not mentioned(text):
        return None
    source = Source(text)
    joins = find(source, asof)
    return _Rewriter(source, parameters).rewritten(joins) if joins else None


def mentioned(text: str) -> bool:
    """Whether a text may have AS OF joins: cheap, and right where it says no."""
    return _MENTIONED.search(text) is not None


def raw_literal(text: str) -> str:
    """A SQL literal of a text, whatever stands in it; but for sessions with the literals of Spark 1.6 (`escapedStringLiterals`)."""
    if "'" not in text:
        return f"r'{text}'" if "\\" in text else f"'{text}'"
    if '"' not in text:
        return f'r"{text}"'
    return "concat(" + """, r"'", """.join(raw_literal(part) for part in text.split("'")) + ")"


class _Rewriter:
    """Puts calls in place of joins: the innermost first, then from left to right, since each may be part of the left side of the next."""

    def __init__(self, source: Source, parameters: Parameters) -> None:
        self.source, self.parameters = source, parameters
        self.edits: dict[Span, str] = {}

    def rewritten(self, joins: list[Join]) -> Rewritten:
        plain = self.source.text
        for join in joins:
            span = self.source.span(join.first, join.end)
            call = self._call(join, span)
            self.edits = {other: text for other, text in self.edits.items() if not span[0] <= other[0] < span[1]}
            self.edits[span] = call
            for start, end in join.marks:
                plain = plain[:start] + blank(plain[start:end]) + plain[end:]
        return Rewritten(self._piece((0, len(plain)), self.edits), plain)

    def _call(self, join: Join, span: Span) -> str:
        last, words = self.source.tokens[join.words - 1].end, self.source.tokens[join.words].start
        left = self._piece((span[0], words if self.source.text[last:words].strip() else last), self.edits)  # with comments behind it
        right = self._piece(join.right, self.edits) + (f" AS {self._piece(join.alias, self.edits)}" if join.alias else "")
        arguments = [f"TABLE(SELECT * FROM {left})", f"TABLE(SELECT * FROM {right})"]
        strings = (("at", join.at), ("match", join.match), ("on", join.on))
        arguments += [f"{name} => {raw_literal(self._bound(where))}" for name, where in strings if where]
        if join.using:
            arguments.append(f"using => ARRAY({', '.join(raw_literal(name) for name in join.using)})")
        arguments.append(f"join_type => '{join.kind}'")
        if join.at:
            arguments += [f"history => {raw_literal(self._piece(join.right, {}))}", f"unit => '{join.unit}'"]
        call = ", ".join(arguments)
        missing = self.source.text.count("\n", *span) - call.count("\n")
        return f"AS_OF_JOIN({call}{chr(10) * missing})"  # so what follows keeps its line

    def _piece(self, span: Span, edits: dict[Span, str]) -> str:
        """A stretch of the text, edited."""
        made, at = "", span[0]
        for (start, end), text in sorted(edits.items()):
            if span[0] <= start and end <= span[1]:
                made, at = made + self.source.text[at:start] + text, end
        return made + self.source.text[at : span[1]]

    def _bound(self, span: Span) -> str:
        """A stretch that becomes a string. Nothing would bind the parameters in it, so they are filled in."""
        edits = dict(self.edits)
        for i, token in enumerate(self.source.tokens):
            named = is_parameter(self.source, i)
            if not span[0] <= token.start < span[1] or not (named or token.text == "?"):
                continue
            value = self.parameters(token.text) if named else None
            if value is None:
                problem = f"the parameter `{':' * named}{token.text}` cannot stand in the time or the condition"
                fix = f"Compute it in the left side: FROM (SELECT *, {':' * named}{token.text} AS x FROM ..) AS l JOIN .."
                raise Refusal("AS OF", problem, fix, token.start - named)
            if not any(start <= token.start < end for start, end in self.edits):  # a call inside has bound its own
                edits[token.start - 1, token.end] = value
        return self._piece(span, edits)

"""Finds the AS OF joins in SQL text, and refuses those that cannot be (rule J1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamtime.sql.call.errors import CallError
from streamtime.sql.syntax.expressions import complete, has_columns, value_end
from streamtime.sql.syntax.tokens import Source, Span

UNITS = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp"}
JOIN_WORDS = ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF")
INNER, LEFT = ("", "INNER"), ("LEFT", "LEFT OUTER")
# What ends a relation, where no operand is expected
CLAUSES = (
    "SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION",
    "INTERSECT", "EXCEPT", "MINUS", "LATERAL", "MAP", "REDUCE", "INSERT", ";", "|>",
)  # fmt: skip
ENDS = (*CLAUSES, *JOIN_WORDS, "JOIN", "PIVOT", "UNPIVOT", "ON", "USING", "MATCH_CONDITION", ",", ")")
NO_ALIAS = (*ENDS, *UNITS, "FOR", "TABLESAMPLE", "WITH", "WATERMARK")
INSTEAD = {
    "RIGHT": (
        "it keeps right rows that no left row asked for, so there is no time to look them up at",
        "Write LEFT JOIN, the sides exchanged.",
    ),
    "FULL": ("it keeps right rows that no left row asked for, so there is no time to look them up at", "Write LEFT JOIN."),
    "CROSS": ("a version is looked up by a key", "Write JOIN .. ON with the key."),
    "NATURAL": ("its columns are not known when the text is rewritten", "Write JOIN .. USING (key)."),
    "SEMI": ("it cannot be AS OF a column", "Write JOIN, and select the columns of the left side."),
    "ANTI": ("it cannot be AS OF a column", "Write LEFT JOIN, and keep the rows WHERE the right key IS NULL."),
}
NAME_IT = "Name a table or a view: CREATE TEMP VIEW v AS .., then JOIN v FOR SYSTEM_TIME AS OF .."


class Refusal(CallError):
    """An AS OF join that cannot be; `offset` is where in the text."""

    def __init__(self, what: str, problem: str, fix: str, offset: int) -> None:
        super().__init__("AS_OF_JOIN", what, problem, fix)
        self.offset = offset


@dataclass(frozen=True)
class Join:
    """An AS OF join. Its left side starts at token `first`, the words of the join at token `words`; `end` is the token after it."""

    first: int
    words: int
    end: int
    kind: str  # inner or left
    right: Span  # the name of the table; of ASOF JOIN, all of the right side
    on: Span | None
    using: tuple[str, ...]
    alias: Span | None = None
    at: Span | None = None  # AS OF ..
    unit: str = ""  # timestamp or version
    match: Span | None = None  # MATCH_CONDITION (..)
    marks: tuple[Span, ...] = ()  # what makes it an AS OF join


@dataclass(frozen=True)
class Period:
    """AS OF a column: token `start` is where FOR, VERSION .. stand; the expression is `first` to `end`."""

    start: int
    first: int
    end: int
    unit: str


@dataclass(frozen=True)
class RelationText:
    """A relation as far as AS OF asks: from token `start` to `after`, whether it is a name, and what follows it."""

    start: int
    after: int
    named: bool
    alias: Span | None
    period: Period | None
    end: int


def find(source: Source, asof: bool = True) -> list[Join]:
    """The AS OF joins of a text, the innermost first, then from left to right; ASOF JOIN only if `asof`. Raises Refusal."""
    joins = list(_level(source, None, 0, len(source.tokens), asof))
    for opening, closing in source.closing.items():
        joins += _level(source, opening + 1, opening + 1, closing, asof)
    return sorted(joins, key=lambda join: (-_depth(source, join.words), join.words))


def _depth(source: Source, i: int) -> int:
    depth, around = 0, source.around[i]
    while around is not None:
        depth, around = depth + 1, source.around[around]
    return depth


def _level(source: Source, relation: int | None, i: int, end: int, asof: bool) -> Iterator[Join]:
    """The joins of a stretch that stand in none of its parentheses. `relation` is the token where the relation at hand starts."""
    piped = False
    while i < end:
        word = "" if source.is_field(i) else source.word(i)
        if (word == "FROM" and source.word(i - 1) != "DISTINCT") or (word == "," and relation is not None):
            relation, piped = i + 1, False
            _refuse_alone(source, relation, word)
            i = _rows_end(source, relation)
            continue
        if word == "JOIN":
            join = _join(source, relation, i, end, piped, asof)
            if join is not None:
                yield join
                i = join.end
                continue
        elif word in CLAUSES and (word == "SELECT" or complete(source, i - 1)) and source.word(i - 1) != "JOIN":  # JOIN LATERAL
            relation, piped = None, word == "|>"
        i = source.closing.get(i, i) + 1


def _rows_end(source: Source, i: int) -> int:
    """After the rows of VALUES, whose commas are none of FROM; anywhere else, here."""
    if source.word(i) != "VALUES":
        return i
    i = value_end(source, i + 1)
    while source.word(i) == ",":
        i = value_end(source, i + 1)
    return i


def _join(source: Source, relation: int | None, at: int, end: int, piped: bool, asof: bool) -> Join | None:
    words = at
    while words - 1 > (relation if relation is not None else 0) and source.word(words - 1) in JOIN_WORDS and not source.is_field(words - 1):
        words -= 1
    kinds = source.words(words, at - words)
    lateral = source.word(at + 1) == "LATERAL"
    if "ASOF" in kinds and (match := _match(source, at + 1, end)) is not None:
        if not asof:
            return None
        right, period = None, None
        marks: tuple[Span, ...] = (
            source.span(words + kinds.index("ASOF"), words + kinds.index("ASOF") + 1),
            source.span(match, source.closing[match + 1] + 1),
        )
        following = source.closing[match + 1] + 1
    else:
        match, right = None, item(source, at + 1 + lateral)
        if (period := right.period) is None:
            return None
        marks = (source.span(period.start, period.end),)
        following = right.end
    kind = _kind(source, words, kinds, match is not None)
    place = source.tokens[words].start
    if piped:
        fix = "Write it into FROM, before the first |>."
        raise Refusal("JOIN", "a join after |> has no left side in the text", fix, place)
    if relation is None:
        return None
    if source.word(relation) == "LATERAL":
        raise Refusal("LATERAL", "what it refers to is not part of the left side", "Put the other relation and it in a subquery.", place)
    if lateral or (right is not None and not right.named):
        raise Refusal("AS OF", "its right side is a query, not a table", NAME_IT, source.tokens[at + 1].start)
    on, using, stop = _criteria(source, following, end)
    if right is not None and on is None and not using:
        if stop < end and source.word(stop) not in ENDS:
            return None  # Spark says what is wrong here
        raise Refusal("JOIN", "there is no condition", "Add ON with the key of the versions, or USING (key).", place)
    if right is None:
        assert match is not None
        inside = source.span(match + 2, source.closing[match + 1])
        return Join(relation, words, stop, kind, source.span(at + 1, match), on, using, match=inside, marks=marks)
    assert period is not None
    name, at_span = source.span(right.start, right.after), source.span(period.first, period.end)
    return Join(relation, words, stop, kind, name, on, using, alias=right.alias, at=at_span, unit=period.unit, marks=marks)


def _kind(source: Source, words: int, kinds: Sequence[str], asof: bool) -> str:
    """inner or left. Raises Refusal for any other."""
    place = source.tokens[words].start
    rest = " ".join(kinds)
    if asof:
        if kinds[-1] != "ASOF":
            raise Refusal("ASOF JOIN", f"expected {' '.join(k for k in kinds if k != 'ASOF')} before ASOF", "Write LEFT ASOF JOIN.", place)
        rest = " ".join(kinds[:-1])
    for word in kinds:
        if word in INSTEAD:
            problem, fix = INSTEAD[word]
            raise Refusal(f"{rest} JOIN", problem, fix.replace("JOIN", "ASOF JOIN", 1) if asof else fix, place)
    return "left" if rest in LEFT else "inner"


def _match(source: Source, i: int, end: int) -> int | None:
    """Where MATCH_CONDITION (..) stands after the right side that starts here."""
    for at in source.level(i, end):
        if source.word(at) == "MATCH_CONDITION" and at > i and source.word(at + 1) == "(" and at + 1 in source.closing:
            return at if source.closing[at + 1] > at + 2 else None
        if at > i and source.word(at) in ("JOIN", "ON", "USING", "WHERE", "SELECT"):
            return None
    return None


def item(source: Source, i: int) -> RelationText:
    """The relation that starts at this token."""
    after, named = _primary(source, i)
    alias, end = _alias(source, after)
    period = _period(source, end) if alias else None  # prices p FOR SYSTEM_TIME AS OF o.ts
    if period is not None:
        return RelationText(i, after, named, alias, period, period.end)
    period = _period(source, after)
    if period is not None:  # prices FOR SYSTEM_TIME AS OF o.ts p
        alias, end = _alias(source, period.end)
    return RelationText(i, after, named, alias, period, end)


def _primary(source: Source, i: int) -> tuple[int, bool]:
    """The token after a table name, a subquery, a function or rows; and whether it is a name."""
    if i >= len(source.tokens):
        return i, False
    if source.word(i) == "VALUES":
        return _rows_end(source, i), False
    if source.word(i) == "LATERAL" and "(" in (source.word(i + 1), source.word(source.name_end(i + 1))):
        return _primary(source, i + 1)[0], False
    if source.tokens[i].name is None:
        return source.closing.get(i, i) + 1, False
    if (
        source.word(i) == "STREAM"
        and i + 1 < len(source.tokens)
        and source.tokens[i + 1].name is not None
        and _period(source, i + 1) is None
    ):
        return _primary(source, i + 1)[0], False
    after = source.name_end(i)
    return (source.closing.get(after, after) + 1, False) if source.word(after) == "(" else (after, True)


def _alias(source: Source, i: int) -> tuple[Span | None, int]:
    """`[AS] name [(columns)]`, without AS, and the token after it."""
    start = i + 1 if source.word(i) == "AS" else i
    if start >= len(source.tokens) or source.tokens[start].name is None or (start == i and source.word(start) in NO_ALIAS):
        return None, i
    end = start + 1
    if source.word(end) == "(" and end in source.closing:
        end = source.closing[end] + 1
    return source.span(start, end), end


def _period(source: Source, i: int) -> Period | None:
    """AS OF a column, if that stands here."""
    start = i
    if source.word(i) == "FOR":
        i += 1
    if source.word(i) not in UNITS or source.words(i + 1, 2) != ["AS", "OF"]:
        return None
    first = i + 3
    end = value_end(source, first)
    if end == first or not has_columns(source, first, end):
        return None
    return Period(start, first, end, UNITS[source.word(i)])


def _criteria(source: Source, i: int, end: int) -> tuple[Span | None, tuple[str, ...], int]:
    """ON or USING, if one stands here, and the token after it."""
    if source.word(i) == "USING" and i + 1 in source.closing and source.word(i + 1) == "(":
        close = source.closing[i + 1]
        names = [source.tokens[at] for at in range(i + 2, close) if source.tokens[at].name is not None]
        return None, tuple(t.text[1:-1].replace("``", "`") if t.kind == "quoted" else t.text for t in names), close + 1
    if source.word(i) != "ON" or i + 1 >= end:
        return None, (), i
    stop = next((at for at in source.level(i + 1, end) if _ends(source, at)), end)
    return (source.span(i + 1, stop), (), stop) if stop > i + 1 else (None, (), i)


def _ends(source: Source, i: int) -> bool:
    return source.word(i) in ENDS and not source.is_field(i) and complete(source, i - 1)


def _refuse_alone(source: Source, i: int, word: str) -> None:
    """AS OF a column of what is no left side of a join."""
    if (period := item(source, i).period) is None:
        return
    place = source.tokens[period.start].start
    if word == ",":
        raise Refusal("AS OF", "a comma has no condition by which versions are looked up", "Write JOIN .. ON in place of the comma.", place)
    fix = "Write FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k."
    raise Refusal("AS OF", "there is no left side before it whose column it could be", fix, place)

"""The two inputs of a temporal join, made ready: their keys matched, their times, and what of ON is left over (rules J1, C1, C11)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.as_of.history import column, declaring, past, table_columns, tombstones
from streamtime.sql.as_of.keys import KeyPair
from streamtime.sql.call.errors import CallError, did_you_mean, listed
from streamtime.sql.call.names import parts, pieces, plain
from streamtime.sql.call.spec import Bound
from streamtime.sql.call.values import Expression, Sort, Table
from streamtime.sql.rows.columns import alike, named_like, resolves
from streamtime.sql.rows.frame import PREFIX, Ref, different_types, prepare
from streamtime.sql.syntax.conditions import Conjunct, comparison, split
from streamtime.sql.syntax.expressions import has_columns
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.as_of.history import Past
    from streamtime.sql.call.values import Origin
    from streamtime.sql.rows.frame import Frame

Extras = dict[str, tuple[Expression, ...]]
LEFT, RIGHT = "left", "right"
# a key that a null matches: structs are never null, and equal where their fields are, nulls included
NULL_TOO = f"named_struct('{PREFIX}of', {{}})"


@dataclass(frozen=True)
class Sides:
    """What is joined. `using` are names of key columns that both sides share and the result has once; `rest` is the condition that applies
    after a version is picked. `forward` and `exact` are what the comparison of times says, None where there was none. `begins` is the first
    commit, by time or number, where commits are asked.
    """

    left: Frame
    right: Frame
    using: tuple[str, ...] = ()
    rest: str = ""
    forward: bool | None = None
    exact: bool | None = None
    begins: int | None = None


def sides(call: Bound) -> Sides:
    """Both sides of a call with two TABLE arguments. Raises CallError for whatever cannot be meant."""
    frames = call.tables[0].df, call.tables[1].df
    keys, others = _keys(call, frames)
    wanted: Extras = {name: (Expression.parse(call[name]),) for name in ("arrival", "deleted") if call[name]}
    orders: list[tuple[Sort, ...]]
    forward = exact = None
    looked_back = _past(call, keys, others)
    if looked_back is not None:
        frames, keys, others = (frames[0], looked_back.frame), looked_back.keys, looked_back.others
        orders = [(time,) for time in looked_back.times]
        asked = {"deleted": looked_back.deleted, "until": looked_back.until}
        wanted |= {name: (Expression.parse(text),) for name, text in asked.items() if text and name not in wanted}
    else:
        orders, forward, exact = _orders(call, frames)
        marks = None if "deleted" in wanted else tombstones(call)
        wanted |= {"deleted": (Expression.parse(marks),)} if marks else {}
    if call["match"]:
        right_rows, others = _filtered(call, frames, others)
        frames = frames[0], right_rows
    if not orders[0] or not orders[1]:
        side = LEFT if not orders[0] else RIGHT
        fix = "Add ORDER BY ts after each TABLE(..), or match => 'l.ts >= r.ts'."
        raise call.refuse("ORDER BY", f"is missing on the {side} side: its first expression is the side's time", fix)
    left = Table(frames[0], tuple(k.left for k in keys), orders[0])
    right = Table(frames[1], tuple(k.right for k in keys), orders[1])
    rest = " AND ".join(f"({c.text})" for c in others)
    left_frame = _side(call, LEFT, left, {n: e for n, e in wanted.items() if n == "arrival"})
    right_frame = _side(call, RIGHT, right, wanted)
    if looked_back is not None and looked_back.until:
        own = table_columns(right_frame.originals)
        right_frame = replace(right_frame, columns=right_frame.columns[:own], originals=right_frame.originals[:own])
    begins = looked_back.begins if looked_back is not None else None
    both = Sides(left_frame, right_frame, tuple(call["using"] or ()), rest, forward, exact, begins)
    _check_types(call, both)
    return _named_as_left(both)


def _filtered(call: Bound, frames: tuple[DataFrame, DataFrame], others: list[Conjunct]) -> tuple[DataFrame, list[Conjunct]]:
    """With `match`, as in Spark's ASOF JOIN, a condition on the right side says which rows can be picked; what is left is on the left."""
    right, rest = frames[1], []
    for conjunct in others:
        if resolves(frames[0], conjunct.text):
            rest.append(conjunct)
        elif resolves(frames[1], conjunct.text):
            right = right.where(F.expr(conjunct.text))
        else:
            problem = (
                f"with `match`, conditions choose among rows, and `{conjunct.text}` is neither an equality of the sides nor about one side"
            )
            raise call.refuse(
                "`on`", problem, "Filter the result, or give the times by ORDER BY: conditions then apply to what was picked."
            )
    return right, rest


def _past(call: Bound, keys: list[KeyPair], others: list[Conjunct]) -> Past | None:
    """The right side's history, where the call asks for it."""
    if not call["history"]:
        wrong = next((n for n in ("at", "unit") if call[n]), None)
        if wrong:
            raise call.refuse(f"`{wrong}`", "needs `history`: the name of the right side's table", "Add history => 'prices'.")
        return None
    if not call["at"]:
        raise call.refuse("`history`", "needs `at`: the time to look up, over the left side's columns", "Add at => 'l.ts'.")
    clash = next((n for n in ("match", "order_by", "arrival", "deleted", "direction") if call[n]), None)
    if clash or any(t.order_by for t in call.tables):
        raise call.refuse(f"`{clash}`" if clash else "ORDER BY", "given beside `history`, which has its own time", "Leave one out.")
    return past(call, keys, others, _plain(call, call.tables[0].df, call["at"]))


def clock_keys(call: Bound, left: Frame) -> tuple[int, ...]:
    """The numbers of the keys that `clock_by` names (rule J5)."""
    places, (before, after) = [], NULL_TOO.split("{}")
    written = [k.text.removeprefix(before).removesuffix(after) if k.text.startswith(before) else k.text for k in left.keys]
    names = [plain(text) or text for text in written]
    for text in call["clock_by"] or ():
        among = call.names.among(plain(text) or text, names)
        if not among:
            fix = f"The keys of the left side are {listed(names)}." if names else "Add PARTITION BY."
            raise call.refuse("`clock_by`", f"`{text}` is not among the left side's keys (J5)", fix)
        places.append(among[0])
    return tuple(places)


def without_tables(call: Bound, both: Sides) -> tuple[str, dict[Origin, str]]:
    """The rest of ON for doors behind which a join has no tables: columns that it names with their table, by names of their own."""
    source = Source(both.rest)
    others: dict[Origin, str] = {}
    text, at = "", 0
    for i, token in enumerate(source.tokens):
        if token.name is None or source.is_field(i):
            continue
        ends = range(i + 3, source.name_end(i) + 1, 2)
        of_table = next(((place, end) for end in ends if (place := _of_table(call, both, source, i, end)) is not None), None)
        if of_table is not None:
            place, end = of_table
            name = others.setdefault(place, f"{PREFIX}side_{len(others)}")
            text, at = text + source.text[at : token.start] + name, source.tokens[end - 1].end
    return text + source.text[at:], others


def _of_table(call: Bound, both: Sides, source: Source, start: int, end: int) -> Origin | None:
    """The one column that these tokens name with its table."""
    first, last = source.tokens[start].spelled or "", source.tokens[end - 1].spelled
    places = []
    for side, frame in enumerate((both.left, both.right)):
        rows, among = call.tables[side].df, call.names.among(last, frame.originals)
        has_fields = any(call.names.same(f.name, first) and not isinstance(f.dataType, T.AtomicType) for f in rows.schema)
        if len(among) == 1 and not has_fields and resolves(rows, source.slice(start, end)):
            places.append((side, among[0]))
    return places[0] if len(places) == 1 else None


def _side(call: Bound, name: str, table: Table, extras: Extras) -> Frame:
    options = call.options | {"keys": None, "order_by": None, "time": None}
    first = table.order_by[0]
    try:
        frame = prepare(replace(call, tables=(table,), options=options), **extras)
    except CallError as error:
        if call["at"] and name == LEFT and error.argument == "ORDER BY":  # nobody wrote one
            fix = "Name a time of the left side." if error.problem.startswith("expected") else error.fix
            raise CallError(error.function, "AS OF (`at`)", error.problem, fix) from None
        raise CallError(
            error.function, f"{error.argument} of the {name} side" if error.argument else name, error.problem, error.fix
        ) from None
    if not first.ascending:
        fix = "Leave DESC out; to look for the next row in place of the last one, say direction => 'forward'."
        raise call.refuse(
            "ORDER BY", f"the first expression is the time of the {name} side and must go up, got {first.expression.text} DESC", fix
        )
    return frame


def _keys(call: Bound, frames: tuple[DataFrame, DataFrame]) -> tuple[list[KeyPair], list[Conjunct]]:
    """The pairs of keys, and the conjuncts of ON that are none."""
    clauses = [call.tables[i].partition_by for i in (0, 1)]
    given = [name for name in ("keys", "using", "on") if call[name]]
    if clauses[0] or clauses[1]:
        if given:
            raise call.refuse(f"`{given[0]}`", "given beside PARTITION BY", "Leave one out.")
        if len(clauses[0]) != len(clauses[1]):
            problem = f"the left side has {len(clauses[0])} keys, the right side {len(clauses[1])}"
            raise call.refuse("PARTITION BY", problem, "The n-th key of the left side matches the n-th of the right side.")
        return [KeyPair(a, b) for a, b in zip(*clauses, strict=True)], []
    if len(given) > 1:
        raise call.refuse(f"`{given[1]}`", f"given beside `{given[0]}`", "Leave one out.")
    if call["on"]:
        return _of_condition(call, frames, split(call["on"]))
    both = [Expression.parse(k) for k in call["keys"] or [quoted(u) for u in call["using"] or ()]]
    return [KeyPair(k, k) for k in both], []


def _of_condition(call: Bound, frames: tuple[DataFrame, DataFrame], conjuncts: list[Conjunct]) -> tuple[list[KeyPair], list[Conjunct]]:
    pairs: list[KeyPair] = []
    rest = []
    for conjunct in conjuncts:
        turned = _turned(call, frames, conjunct, "`on`") if conjunct.operator in ("=", "<=>") else None
        if turned is None or not _is_key(call, frames[1], turned):
            rest.append(conjunct)
        else:
            left, right = _plain(call, frames[0], turned.left), _plain(call, frames[1], turned.right)
            if conjunct.operator == "<=>":
                left, right = (Expression.parse(NULL_TOO.format(key.text)) for key in (left, right))
            pairs.append(KeyPair(left, right, conjunct))
    if not pairs:
        _refuse_unknown(call, frames, rest)
        fix = "Add one, such as on => 'l.k = r.k'."
        raise call.refuse("`on`", f"expected an equality between a column of the left side and one of the right, got {call['on']}", fix)
    return pairs, rest


def _is_key(call: Bound, right: DataFrame, turned: Conjunct) -> bool:
    """Whether an equality is of both sides. One with a constant is a condition like any other (J1), but where a table's history is asked:
    there a column of the table may be part of its key, whatever it is compared with.
    """
    if _is_constant(call, turned.right):
        return False
    if not _is_constant(call, turned.left):
        return True
    asked = bool(call["history"]) and turned.operator == "="
    return asked and call.names.find(plain(_plain(call, right, turned.right).text), right.columns) is not None


def _is_constant(call: Bound, text: str) -> bool:
    """Whether it has no columns: neither by its tokens nor where there are none, as a session's variable."""
    source = Source(text)
    return not has_columns(source, 0, len(source.tokens)) or resolves(call.session.range(1).select(), text)


def _refuse_unknown(call: Bound, frames: tuple[DataFrame, DataFrame], conjuncts: list[Conjunct]) -> None:
    """For the first name in a comparison that neither side has."""
    for text in (t.strip() for c in conjuncts for t in (c.left, c.right)):
        if parts(text) and not any(resolves(f, text) for f in frames):
            known = list(dict.fromkeys(c for f in frames for c in f.columns))
            fix = did_you_mean(parts(text)[-1], known) or f"The sides have {listed(known)}."
            raise call.refuse("`on`", f"no column `{text}` on either side", fix)


def _orders(call: Bound, frames: tuple[DataFrame, DataFrame]) -> tuple[list[tuple[Sort, ...]], bool | None, bool | None]:
    """What orders each side, its time first, and what `match` means for direction and exactness."""
    if not call["match"]:
        given = tuple(Sort.parse(o) for o in call["order_by"] or ())
        return [table.order_by or given for table in call.tables], None, None
    clash = next((n for n in ("order_by", "direction", "allow_exact") if call[n] is not None), None)
    if any(t.order_by for t in call.tables) or clash:
        raise call.refuse("`match`", f"given beside {'`' + clash + '`' if clash else 'ORDER BY'}", "Leave one out.")
    compared = comparison(call["match"])
    turned = _turned(call, frames, compared, "`match`") if compared.operator in (">=", ">", "<=", "<") else None
    if turned is None:
        expected = "a comparison of the two times with >=, >, <= or <"
        raise call.refuse("`match`", f"expected {expected}, got {call['match']}", "Write it as 'l.ts >= r.ts'.")
    times = [Sort(_plain(call, f, text)) for f, text in zip(frames, (turned.left, turned.right), strict=True)]
    return [(time,) for time in times], turned.operator.startswith("<"), turned.operator.endswith("=")


def _turned(call: Bound, frames: tuple[DataFrame, DataFrame], compared: Conjunct, argument: str) -> Conjunct | None:
    """The comparison with the left side's expression at its left; None where it does not compare the sides."""
    for text in (compared.left, compared.right):
        if all(call.names.among(plain(text), f.columns) for f in frames):
            raise call.refuse(argument, f"column `{text.strip()}` is ambiguous: both sides have it", "Write the table before it: l.k.")
    if resolves(frames[0], compared.left) and resolves(frames[1], compared.right):
        return compared
    if resolves(frames[0], compared.right) and resolves(frames[1], compared.left):
        return compared.mirrored
    return None


def _plain(call: Bound, frame: DataFrame, text: str) -> Expression:
    """`o.k` as `k` where that can only mean the same: the frame then needs no second copy of the column."""
    named = parts(text)
    qualified = len(named) > 1 and not any(call.names.among(n, frame.columns) for n in named[:-1])
    known = qualified and len(call.names.among(named[-1], frame.columns)) == 1
    return Expression.parse(pieces(text)[-1] if known else text)


def _check_types(call: Bound, both: Sides) -> None:
    left, right = both.left, both.right
    if type(left.time.type) is not type(right.time.type):
        problem = f"the times have different types: {left.time.type.simpleString().upper()} (`{left.time.text}`) on the left, "
        problem += f"{right.time.type.simpleString().upper()} (`{right.time.text}`) on the right"
        fix = "Cast one of them (C11)."
        if both.begins is not None:
            fix = f"{call['history']} declares no event time, so the times of its commits are asked. Cast the time, or declare its own: "
            fix += f"{declaring(call, [column(k.text) for k in right.keys])}."
        raise call.refuse("AS OF (`at`)" if call["at"] else "ORDER BY", problem, fix)
    for role, what, ones, others in _compared(both):
        for a, b in zip(ones, others, strict=True):
            if not alike(a.type, b.type):
                raise different_types(call, role, a, b, what)


def _compared(both: Sides) -> Iterator[tuple[str, str, tuple[Ref, ...], tuple[Ref, ...]]]:
    """What both sides have beside times, with the argument that says so and what it is called."""
    yield "PARTITION BY", "the keys ", both.left.keys, both.right.keys
    yield "`arrival`", "the arrivals ", both.left.extras.get("arrival", ()), both.right.extras.get("arrival", ())


def _named_as_left(both: Sides) -> Sides:
    """Keys and arrivals that have parts are one column in the union of both sides, where the parts have the names of the left ones."""
    cast: dict[str, Column] = {}

    def named_so(a: Ref, b: Ref) -> Ref:
        kind = named_like(b.type, a.type)
        if a.type == b.type or isinstance(b.type, T.AtomicType):
            return b
        name = f"{PREFIX}as_left_{len(cast)}"
        cast[name] = b.column.cast(kind)
        return Ref(name, kind, b.text)

    right = both.right
    keys, arrival = (tuple(map(named_so, ones, others)) for _, _, ones, others in _compared(both))
    extras = right.extras | ({"arrival": arrival} if arrival else {})
    return replace(both, right=replace(right, df=right.df.withColumns(cast), keys=keys, extras=extras)) if cast else both

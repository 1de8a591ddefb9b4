"""Aggregates as SQL text (rule W5): `'count(*) AS n, sum(amount) AS total'`, split with sqlglot's tokens, typed by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from streamtime.sql.call.errors import did_you_mean
from streamtime.sql.call.names import is_reserved
from streamtime.sql.call.values import Expression
from streamtime.sql.rows.columns import has_collation, must_travel, orderable
from streamtime.sql.rows.frame import PREFIX
from streamtime.udfs.updates.aggregates import KINDS, Aggregate, aggregate

if TYPE_CHECKING:
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref

ARGUMENT = "`aggregates`"
MERGE = f"those that merge: {', '.join(f'{k}(..)' for k in KINDS)}"
SHAPE = "Write it as aggregates => 'count(*) AS n, sum(amount) AS total'."
PAIRS = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.R_PAREN: -1, TokenType.R_BRACKET: -1}


@dataclass(frozen=True)
class WrittenAggregate:
    """One aggregate as written."""

    function: str
    argument: str  # '' for count(*)
    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """One aggregate, ready to run: its argument is the column `kernel.column` of the frame."""

    kernel: Aggregate
    type: T.DataType


def parse(call: Bound, known: str = MERGE) -> list[WrittenAggregate]:
    """What the call's `aggregates` say. Raises CallError for what is none of those `known`, as its message lists them."""
    text = call["aggregates"]
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except SqlglotError as error:
        raise call.refuse(ARGUMENT, f"is not SQL: {str(error).splitlines()[0]}", SHAPE) from None
    asked = [_one(call, text, item, known) for item in items(tokens)]
    if reserved := next((a.name for a in asked if is_reserved(a.name)), None):
        raise call.refuse(ARGUMENT, f"`{reserved}` is a reserved name", "Choose another one.")
    if twice := call.names.twice([a.name for a in asked]):
        raise call.refuse(ARGUMENT, f"two aggregates are named `{twice[0]}`", "Give them different names.")
    return asked


def items(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens between the commas that stand in no parentheses."""
    depth, item = 0, list[Token]()
    for token in tokens:
        depth += PAIRS.get(token.token_type, 0)
        if token.token_type == TokenType.COMMA and depth == 0:
            yield item
            item = []
        else:
            item.append(token)
    yield item


CLAUSES = {  # that may stand behind an aggregate elsewhere: what to write here
    "FILTER": "Write the condition into the argument: {0}(if(condition, {1}, NULL)) AS {0}.",
    "OVER": "Leave it out: each window has totals of its own.",
}


def _one(call: Bound, text: str, tokens: list[Token], known: str) -> WrittenAggregate:
    if not tokens:
        raise call.refuse(ARGUMENT, "expected an aggregate before or after a comma, got nothing", SHAPE)
    written = text[tokens[0].start : tokens[-1].end + 1]
    if len(tokens) < 3 or tokens[1].token_type != TokenType.L_PAREN:
        raise call.refuse(ARGUMENT, f"expected function(argument) AS name, got `{written}`", SHAPE)
    function = tokens[0].text.lower()
    if function not in KINDS:
        fix = (did_you_mean(function, list(KINDS)) or "").replace("`", "") or "Compute it from these in the query around the call."
        raise call.refuse(ARGUMENT, f"`{tokens[0].text}` is not one of {known}", fix)
    depth, close = 0, 0
    for at, token in enumerate(tokens[1:], 1):
        depth += PAIRS.get(token.token_type, 0)
        if depth == 0:
            close = at
            break
    inside, rest = tokens[2:close], tokens[close + 1 :]
    if not close:
        raise call.refuse(ARGUMENT, f"a parenthesis is not closed in `{written}`", SHAPE)
    if inside and inside[0].token_type == TokenType.DISTINCT:
        raise call.refuse(ARGUMENT, f"DISTINCT does not merge (`{written}`)", "Deduplicate the TABLE argument first.")
    if rest and rest[0].token_type == TokenType.ALIAS:
        rest = rest[1:]
    if rest and (clause := rest[0].text.upper()) in CLAUSES:
        some = text[inside[0].start : inside[-1].end + 1] if inside and inside[0].text != "*" else "1"
        raise call.refuse(ARGUMENT, f"{clause} has no place here (`{written}`)", CLAUSES[clause].format(function, some))
    if len(rest) != 1:
        fix = f"Add AS and a name: {text[tokens[0].start : tokens[close].end + 1]} AS {function}."
        raise call.refuse(
            ARGUMENT, f"expected a name after `{text[tokens[0].start : tokens[close].end + 1]}`, got {_rest(text, rest)}", fix
        )
    if len([*items(inside)]) != 1 or not inside:
        raise call.refuse(ARGUMENT, f"expected one argument in `{written}`", SHAPE)
    argument = text[inside[0].start : inside[-1].end + 1]
    if argument == "*" and function != "count":
        raise call.refuse(ARGUMENT, f"`{function}(*)` has no meaning", "Name a column.")
    return WrittenAggregate(function, "" if argument == "*" else argument, rest[0].text, written)


def _rest(text: str, rest: list[Token]) -> str:
    return f"`{text[rest[0].start : rest[-1].end + 1]}`" if rest else "none"


def arguments(asked: list[WrittenAggregate]) -> tuple[Expression, ...]:
    """The arguments, to be resolved over the input."""
    return tuple(Expression.parse(a.argument) for a in asked if a.argument)


def typed(call: Bound, frame: Frame, asked: list[WrittenAggregate]) -> tuple[Frame, tuple[Typed, ...]]:
    """The frame with each argument as the column that is added up, and the aggregates. Raises CallError for types that do not fit."""
    refs = iter(frame.extras.get("aggregates", ()))
    made, typed_totals = {}, []
    sent: dict[tuple[str, T.DataType | None], str] = {}  # each argument travels once, whatever asks for it
    for one in asked:
        ref = next(refs) if one.argument else None
        kind, cast = types(call, one, ref)
        column = ""
        if ref is not None:
            counts = one.function == "count"
            new = f"{PREFIX}argument_{len(sent)}"
            column = sent.setdefault((ref.name, None if counts else cast), ref.name if ref.type == cast and not counts else new)
            if column == new:
                made[column] = F.when(ref.column.isNotNull(), F.lit(True)) if counts else ref.column.cast(cast)
        typed_totals.append(Typed(aggregate(one.name, one.function, column), kind))
    return frame.with_df(frame.df.withColumns(made)) if made else frame, tuple(typed_totals)


def held(call: Bound, frame: Frame, asked: list[WrittenAggregate]) -> dict[str, None]:
    """What the state on a stream adds up, with its types, in words."""
    refs = iter(frame.extras.get("aggregates", ()))
    pairs = [(one, next(refs)) for one in asked if one.argument]
    kinds = [(one, ref.type if isinstance(ref.type, T.DecimalType) else types(call, one, ref)[1]) for one, ref in pairs]
    return dict.fromkeys(f"{one.argument} {kind.simpleString()}" for one, kind in kinds if one.function != "count")


def types(call: Bound, one: WrittenAggregate, ref: Ref | None) -> tuple[T.DataType, T.DataType]:
    """The type of the aggregate, and that to which its argument is cast."""
    if ref is None or one.function == "count":
        return T.LongType(), T.BooleanType()
    kind = ref.type
    named = f"`{one.text}`, where the argument is {kind.simpleString().upper()}"
    if one.function in ("sum", "avg"):
        if isinstance(kind, T.DecimalType):
            sums = T.DecimalType(min(38, kind.precision + 10), kind.scale)
            means = T.DecimalType(min(38, kind.precision + 4), min(38, kind.scale + 4))
            return (sums if one.function == "sum" else means), sums
        if isinstance(kind, T.IntegralType) and one.function == "sum":
            return T.LongType(), T.LongType()
        if isinstance(kind, T.NumericType):
            return T.DoubleType(), T.DoubleType()
        raise call.refuse(ARGUMENT, f"expected a number in {named}", f"Cast it: {one.function}(CAST({one.argument} AS DOUBLE)).")
    must_travel(call, ARGUMENT, f"the argument of `{one.text}`", kind, fix="Cast it to another type.")
    if one.function in ("min", "max"):
        if not orderable(kind):
            raise call.refuse(ARGUMENT, f"expected a type that can be ordered in {named}", "Use a field of it.")
        if has_collation(kind):
            raise call.refuse(ARGUMENT, f"a collation is not possible in {named}", f"Use collate({one.argument}, 'UTF8_BINARY').")
    return (T.ArrayType(kind, False) if one.function == "collect_list" else kind), kind

"""Binds a call to a SPEC: what can be wrong with an option alone is said here (rules C1, C8); what with several, on the function's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamtime.sql.call.errors import CallError, did_you_mean, listed
from streamtime.sql.call.kinds import Refused
from streamtime.sql.call.names import Names, is_reserved
from streamtime.sql.call.remote import is_remote, let_plans_be_deep
from streamtime.sql.call.spec import Bound, Spec, as_they_are
from streamtime.sql.call.values import Origin, Table, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame


def bind(
    spec: Spec,
    tables: Sequence[Table],
    options: Sequence[tuple[str | None, Value]],
    session: Any = None,
    as_inputs: Callable[[DataFrame, Sequence[Origin], bool], DataFrame] = as_they_are,
) -> Bound:
    """Check the call against the SPEC. Raises CallError."""
    if is_remote(session):
        let_plans_be_deep()
    tables = _in_their_places(spec, tables)
    if not len(spec.required) <= len(tables) <= spec.tables:
        fix = f"Write it as {spec.name}({', '.join(spec.leading)})." if spec.leading else None
        count = f"{len(spec.required)} or {spec.tables}" if spec.optional else spec.tables or "no"
        expected = f"expected {count} TABLE argument{'s' * (spec.tables > 1)}, got {len(tables) or 'none'}"
        raise CallError(spec.name, None, expected, fix)
    given: dict[str, Any] = {}
    places = iter(spec.positional)
    for written, value in options:
        name = written or next(places, None)
        if name is None:
            fix = f"Options are: {listed(o.name for o in spec.options)}." if spec.options else f"Write {spec.name}(): it takes none."
            raise CallError(spec.name, None, f"expected named options (name => value), got {value.text} without a name", fix)
        option = spec.option(name)
        if option is None:
            known = [o.name for o in spec.options]
            fix = did_you_mean(name, known) or (f"Options are: {listed(known)}." if known else f"Write {spec.name}(): it takes none.")
            raise CallError(spec.name, f"`{name}`", "no such option", fix)
        if option.name in given:
            raise CallError(spec.name, f"`{option.name}`", "given twice", "Leave one out.")
        given[option.name] = _read(spec, option.name, value)
    for option in spec.options:
        if option.required and given.get(option.name) is None:
            leads = option.name in spec.positional
            fix = f"Write it as {spec.name}({', '.join(spec.leading)})." if leads else f"Add {option.name} => {option.example}."
            raise CallError(spec.name, f"`{option.name}`", f"is required: {option.help}", fix)
    for table in tables:
        _check_clauses(spec, table, given)
    known_options = {o.name: given.get(o.name, o.default) for o in spec.options}
    bound = Bound(spec, tuple(tables), known_options, session, as_inputs, Names(session))
    if spec.check is not None:
        spec.check(bound)
    return bound


def _in_their_places(spec: Spec, tables: Sequence[Table]) -> Sequence[Table]:
    """Tables that have names, in the order of the SPEC; those without take the places that are left."""
    if not spec.named:
        return tables
    placed: dict[str, Table] = {}
    for table in tables:
        if table.name is not None and table.name.lower() not in spec.named:
            fix = did_you_mean(table.name, spec.named) or f"Its tables are {listed(spec.named)}."
            raise CallError(spec.name, f"`{table.name}`", "no such table", fix)
        left = [name for name in spec.named if name not in placed]
        name = table.name.lower() if table.name is not None else left[0] if left else ""
        if not name:
            return tables  # more than there are places: said when they are counted
        if name in placed:
            raise CallError(spec.name, f"`{name}`", "given twice", "Leave one out.")
        placed[name] = table
    for name in spec.required:
        if name not in placed:
            raise CallError(spec.name, f"`{name}`", "is required: a TABLE argument", f"Write it as {spec.name}({', '.join(spec.leading)}).")
    return [placed[name] for name in spec.named if name in placed]


def _read(spec: Spec, name: str, value: Value) -> Any:
    option = spec.option(name)
    assert option is not None
    try:
        if value.python is None and value.type != "INTERVAL":
            left_out = "Give it a value, or leave it out." if option.default_text == "none" else "Leave the option out for its default."
            instead = f"Write {name} => {option.example}." if option.required else left_out
            raise Refused(f"a constant {option.kind.sql}", instead)
        return option.kind.read(value)
    except Refused as refused:
        expected, fix = refused.args
        raise CallError(spec.name, f"`{name}`", f"expected {expected}, got {value.text} ({value.type})", fix or None) from None


def _check_clauses(spec: Spec, table: Table, given: dict[str, Any]) -> None:
    for option, clause, written in (
        ("keys", "PARTITION BY", table.partition_by),
        ("order_by", "ORDER BY", table.order_by),
    ):
        if written and spec.named:
            raise CallError(spec.name, f"`{table.name}`" if table.name else "TABLE", f"takes no {clause}", "Leave the clause out.")
        if written and given.get(option):
            raise CallError(spec.name, f"`{option}`", f"given both as {clause} and as an option", "Leave one out.")
    if spec.ordered and not table.order_by and not given.get("order_by"):
        fix = "Add ORDER BY ts (the event time, if nothing is late) after TABLE(..), or order_by => ARRAY('ts')."
        raise CallError(spec.name, "ORDER BY", "is missing: the processing order has no default", fix)


def refuse_reserved(call: Bound, names: Sequence[str]) -> None:
    """Whether none of the input's columns could be taken for one of ours."""
    if reserved := [n for n in names if is_reserved(n)]:
        raise call.refuse(None, f"column {listed(reserved)} has a reserved name", "Rename it in the TABLE argument.")


def refuse_clash(call: Bound, names: Sequence[str], added: Sequence[str]) -> None:
    """Whether none of the input's columns has the name of one that the call adds (rule C9)."""
    for name in added:
        if (taken := call.names.find(name, names)) is not None:
            raise call.refuse(None, f"the input already has a column `{taken}`, which this call adds", "Rename it in the TABLE argument.")

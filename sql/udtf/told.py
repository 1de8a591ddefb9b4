"""Values as text, in SQL: so a Python UDTF tells keys and groups apart as GROUP BY does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtime.sql.call.names import plain
from streamtime.sql.rows.columns import has_collation
from streamtime.sql.rows.typed import AS_JSON, as_text
from streamtime.sql.syntax.text import literal

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from streamtime.sql.call.spec import Bound

ZERO = r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|-(0\.0)(?![0-9])'  # strings of JSON, which stay as they are; and -0.0, which is equal to 0.0


def told_apart(call: Bound, schema: T.StructType, role: str, text: str) -> str:
    """SQL text for a column, or an expression, as a string, one to one for values that GROUP BY tells apart.

    Raises CallError for a column with a collation; an expression that has one is an error when the query runs.
    """
    name = call.names.find(plain(text), schema.names)
    fix = f"Use collate({text}, 'UTF8_BINARY'), or lower({text}), in the TABLE argument. Or use another door."
    refused = call.refuse(role, f"a Python UDTF cannot compare values with a collation (`{text}`)", fix)
    if name is not None:
        if has_collation(schema[name].dataType):
            raise refused
        return as_text(text, schema[name].dataType)
    options = ", ".join(f"{literal(k)}, {literal(v)}" for k, v in AS_JSON.items())
    json = f"to_json(named_struct('k', {text}), map({options}))"
    zeros = f"if(contains({json}, '-0.0'), regexp_replace({json}, {literal(ZERO)}, '$1$2'), {json})"
    return f"if(contains(typeof({text}), ' collate '), raise_error({literal(str(refused))}), {zeros})"

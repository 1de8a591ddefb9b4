"""Types that bring a Python class of their own: PySpark, asked for a schema, imports a module it names, or unpickles the class in it.

A file or a table must not decide what is imported or unpickled. So a schema is looked at as text first, and refused if it names a class
that this process has not loaded.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError, echoed
from streamtime.sql.rows.unread import schema_json

if TYPE_CHECKING:
    pass

OF_SPARK = (
    "pyspark.ml.linalg.VectorUDT",
    "pyspark.ml.linalg.MatrixUDT",
    "pyspark.mllib.linalg.VectorUDT",
    "pyspark.mllib.linalg.MatrixUDT",
)


def refuse_foreign(df: Any, function: str) -> None:
    """Raises CallError where to ask for the schema would run what the schema says."""
    text = schema_json(df)
    if text is None or '"pyClass"' not in text:
        return
    for field in json.loads(text)["fields"]:
        if (name := _foreign(field["type"])) is not None:
            problem = (
                f"column `{field['name']}` has a type of the Python class {echoed(name, 80)}, which is not loaded from where the rows are"
            )
            raise CallError(function, None, problem, "Leave the column out, or import the class first.")


def _foreign(kind: Any) -> str | None:
    """The first Python class in a type, as JSON, that is not here."""
    if not isinstance(kind, dict):
        return None
    if kind.get("type") == "udt" and "pyClass" in kind:
        name = str(kind["pyClass"])
        module, _, of_it = name.rpartition(".")
        here = getattr(sys.modules.get(module), of_it, None)
        if name not in OF_SPARK and not (isinstance(here, type) and issubclass(here, T.UserDefinedType)):
            return name
    inner = [f["type"] for f in kind.get("fields", ())] + [kind.get(part) for part in ("elementType", "keyType", "valueType", "sqlType")]
    return next((other for one in inner if (other := _foreign(one)) is not None), None)

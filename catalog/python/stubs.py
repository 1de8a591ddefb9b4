"""The signatures of the Python API as type checkers and editors read them: the text of api.pyi, from the SPECs."""

from __future__ import annotations

import inspect
import json
import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from streamtime import api
from streamtime.python.table_functions import documented, signature
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.spec import Spec

PATH = Path(api.__file__).with_suffix(".pyi")
HEAD = '''"""Written by `python3 run.py pages` from the SPECs; not by hand."""

import datetime
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
'''


def stub() -> str:
    """The file."""
    names = [s.name.lower() for s in FUNCTIONS if s.leading]
    return "\n".join(
        [
            HEAD,
            f"__all__ = [  # noqa: RUF022 - as on the shelf{json.dumps(names, indent=4)[1:-2]},\n]\n",
            *(_function(s) for s in FUNCTIONS if s.leading),
        ]
    )


def _function(spec: Spec) -> str:
    given, lines = signature(spec), []
    for parameter in given.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in lines:
            lines.append("*")
        lines.append(_text(parameter))
    body = textwrap.indent(f'"""{documented(spec)}\n"""', "    ", lambda line: bool(line.strip()))
    parameters = "".join(f"    {line},\n" for line in lines)
    return f"def {spec.name.lower()}(\n{parameters}) -> DataFrame:\n{body}\n"


def _text(parameter: inspect.Parameter) -> str:
    text, default = f"{parameter.name}: {_annotation(parameter.annotation)}", parameter.default
    if default is inspect.Parameter.empty:
        return text
    return f"{text} = {json.dumps(default) if isinstance(default, str) else repr(default)}"


def _annotation(kind: Any) -> str:
    """A type as HEAD imports it. What Python itself writes differs from version to version."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"Literal[{', '.join(json.dumps(a) for a in arguments)}]"
    if origin in (Union, UnionType):
        return " | ".join(_annotation(a) for a in arguments)
    if origin is not None:
        return f"{origin.__name__}[{', '.join(_annotation(a) for a in arguments)}]"
    if kind is NoneType:
        return "None"
    return f"datetime.{kind.__name__}" if kind.__module__ == "datetime" else str(kind.__name__)


if __name__ == "__main__":
    PATH.write_text(stub())

"""What a golden answer says on every Spark."""

from __future__ import annotations

import re

from streamtime.shelf import FUNCTIONS

FREE = tuple(spec.name for spec in FUNCTIONS)  # what our errors begin with


def of_any_spark(text: str) -> str:
    """The conversation with Spark's own errors cut to their condition; ours stay whole."""
    own = rf"(?ms)^(AnalysisException|ParseException): (?!{'|'.join(FREE)})(\[[A-Z_.0-9]+\])?.*?(?=\n\n|\n\Z)"
    return re.sub(r"(?m)^-+\^+$", "^^^", re.sub(own, r"Spark: \2", text))  # parsers differ in where they say it is

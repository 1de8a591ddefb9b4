"""What a golden answer says on every Spark."""

from __future__ import annotations

import re

FREE = (
    "DEDUPLICATE",
    "DISTINCT_IN_WINDOW",
    "SESSIONIZE",
    "SESSION_UPDATES",
    "WINDOW_UPDATES",
    "SUPPRESS_UNTIL_CLOSE",
    "SUPPRESS_UNTIL_TIME_LIMIT",
    "FUNCTION_CATALOG",
    "VERSIONS",
    "TABLE_HISTORY",
    "AS_OF_JOIN",
    "ASSIGN_TASKS",
)


def of_any_spark(text: str) -> str:
    """The conversation with Spark's own errors cut to their condition; ours stay whole."""
    own = rf"(?ms)^(AnalysisException|ParseException): (?!{'|'.join(FREE)})(\[[A-Z_.0-9]+\])?.*?(?=\n\n|\n\Z)"
    return re.sub(own, r"Spark: \2", text)

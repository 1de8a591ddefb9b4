"""Persistent views with calls. A view stores its text: the calls or, after `SET streamtime.views = plain`, plain SQL."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.sql.syntax.tokens import tokens

SETTING, CALLS, PLAIN = "streamtime.views", "calls", "plain"
VIEW = r"\b(?:CREATE|ALTER)\b.{0,80}?\bVIEW\b"  # what a text must have to be looked at

compilers: list[Callable[[SparkSession, str], str]] = []  # `streamtime.plain`, which stands on this folder, puts the one that there is here


def is_persistent(words: list[str]) -> bool:
    """Whether a statement that begins with these words stores a view that outlives the session."""
    if words[:2] == ["ALTER", "VIEW"]:
        return True
    return words[:2] == ["CREATE", "VIEW"] or words[:4] == ["CREATE", "OR", "REPLACE", "VIEW"]


def as_plain(spark: SparkSession, text: str) -> str | None:
    """The statement without calls, where it stores a view and the session asks for plain SQL; else None.

    Raises AnalysisException where the setting is none, or a call has no plain SQL.
    """
    asked = str(spark.conf.get(SETTING, CALLS)).lower()
    if asked == CALLS or not is_persistent([t.word for t in tokens(text)[:4]]):
        return None
    if asked != PLAIN:
        raise AnalysisException(f"streamtime.views: expected 'calls' or 'plain', got '{asked}'. Write: SET streamtime.views = plain.")
    made = text
    for compiler in compilers:
        try:
            made = compiler(spark, text)
        except AnalysisException as error:
            problem, place, where = str(error).rpartition("; line ")
            if not problem or "has no plain SQL" not in problem:
                raise
            raise AnalysisException(f"{problem} After SET streamtime.views = calls a view stores the call.{place}{where}") from None
    return None if made == text else made

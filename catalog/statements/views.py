"""Persistent views with calls. A view stores its text: the calls or, after `SET streamtime.views = plain`, plain SQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.shelf import SPECS
from streamtime.sparks import knows_asof_join
from streamtime.sql.syntax.as_of_clauses import Refusal, find
from streamtime.sql.syntax.tokens import is_script
from streamtime.statements.calls import Statement

SETTING, CALLS, PLAIN = "streamtime.views", "calls", "plain"
VIEW = r"\b(?:CREATE|ALTER)\b.*?\bVIEW\b"  # what a text must have to be looked at

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
    if asked == CALLS:
        return None
    statement = Statement(text)
    script = is_script(statement.words(0, 4))
    if not script and not is_persistent(statement.words(0, 4)):
        return None
    if asked != PLAIN:
        raise AnalysisException(f"streamtime.views: expected 'calls' or 'plain', got '{asked}'. Write: SET streamtime.views = plain.")
    if script:
        _refuse_within(statement, asof=not knows_asof_join(spark.version))
        return None
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


def _refuse_within(script: Statement, asof: bool) -> None:
    """What a script makes is there only when it runs, so its views are not compiled. Raises AnalysisException for one with a call."""
    calls = [i for i, _ in script.argument_lists(SPECS)]
    with suppress(Refusal):  # which is said when Spark's parser sees the join
        calls += [join.words for join in find(script, asof)]
    for i in range(len(script.tokens)):
        if is_persistent(script.words(i, 4)):
            end = next((j for j in range(i, len(script.tokens)) if script.word(j) == ";"), len(script.tokens))
            if any(i < call < end for call in calls):
                problem = "a view that a script (BEGIN .. END) makes would store its call, not plain SQL. Give CREATE VIEW as a statement"
                raise AnalysisException(f"streamtime.views: {problem} of its own; {script.position(script.tokens[i].start)}")

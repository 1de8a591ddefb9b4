"""Completion behind %sql and below %%sql: the shell's own, as IPython asks for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from streamtime.shell.completion import Learned, Vocabulary

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import SparkSession

MAGIC = re.compile(r"(?m)^\s*%{1,2}sql\b(?:\s*--(?:limit[ =]+\w+|\w+))*(?:\s*\w+\s*<<)?")  # --limit is the option that has a value


class Completing:
    """Functions, options and their values; tables and columns once there is a session, asked for at the first Tab after a statement."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.vocabulary = Vocabulary()
        self.learned: Learned | None = None
        self.fresh = True

        @context_matcher(identifier="streamtime.sql")  # type: ignore[untyped-decorator]
        def matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self.candidates(context)

        shell.Completer.custom_matchers.append(matcher)

    def learn_of(self, spark: SparkSession) -> None:
        """Names are those of this session."""
        self.vocabulary = Vocabulary()
        self.learned = Learned(spark, self.vocabulary)
        self.vocabulary.columns = self.learned.columns
        self.fresh = False

    def candidates(self, context: CompletionContext) -> SimpleMatcherResult:
        """What may stand at the cursor, if it is in SQL: then nothing of Python's is offered."""
        lines = context.full_text.split("\n")
        cursor = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
        before, after = context.full_text[:cursor], context.full_text[cursor:]
        magic = next(reversed(list(MAGIC.finditer(before))), None)
        if magic is None or ("%%" not in magic[0] and "\n" in before[magic.end() :]):
            return {"completions": []}
        if self.learned and not self.fresh:
            self.learned.learn("tables", *(() if self.vocabulary.functions else ("functions",)))
            self.fresh = True
        rest = after if "%%" in magic[0] else after.partition("\n")[0]
        offered = self.vocabulary.complete(before[magic.end() :], rest)
        most = max((c.replaces for c in offered), default=0)
        begun = before[len(before) - most :]
        shown = [SimpleCompletion(begun[: most - c.replaces] + c.text, type=c.meaning.partition(":")[0]) for c in offered]
        return {"completions": shown, "matched_fragment": begun, "suppress": True, "ordered": True}

    def forget(self) -> None:
        """A statement may have changed tables."""
        if self.learned:
            self.learned.forget()
            self.fresh = False

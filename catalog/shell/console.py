"""Answers statements on a terminal or into a file: runs each, writes its result, and says how it went."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from streamtime.shell.failures import readable
from streamtime.shell.rendering import STREAMED, Result, lines
from streamtime.shell.results import Limited, json_texts, texts
from streamtime.shell.running import Cancelled, Progress, Runner
from streamtime.statements import hints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.shell.connection import Connection

SHELL_LIMIT = 100
SCRIPT_LIMIT = 1000


class Failed(Exception):
    """A statement failed; the message is for people."""


class Gone(Failed):
    """The session is no more."""


@dataclass
class Console:
    """Where answers go, in which format, and how many rows of each.

    `limit` None gives all rows; the format csv or json of a script gives all rows unless the user set a limit.
    """

    connection: Connection
    form: str = "table"
    limit: int | None = SHELL_LIMIT
    interactive: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def __post_init__(self) -> None:
        """One runner for all statements."""
        self.progress = Progress(self.err)
        self.runner = Runner(self.connection.spark, self.connection.remote, self.progress)

    def answer(self, sql: str) -> None:
        """Run one statement and write its result.

        Raises:
            Failed: with the error in readable lines, and its place in the statement.
            Gone: there is no session any more.
            Cancelled: after Ctrl-C.
        """
        began = time.monotonic()
        counts: list[Limited] = []

        def work() -> None:
            from streamtime.sql.call.errors import unlogged

            with unlogged():
                df = self.connection.sql(sql)
                if df.columns:
                    self._write(df, counts)

        try:
            self.runner.run(work)
        except Cancelled as cancelled:
            details = f", {cancelled}" if str(cancelled) else ""
            raise Cancelled(f"cancelled after {time.monotonic() - began:.1f} s{details}") from None
        except BrokenPipeError:
            raise
        except Exception as error:
            if not self.connection.alive():
                raise Gone("Spark has stopped, most likely for want of memory; --memory gives it more.") from error
            hints.explain(error, sql)
            raise Failed(readable(error, sql)) from error
        took = f"{time.monotonic() - began:.2f} s"
        print(f"{self._counted(counts[0])}, {took}" if counts else f"done, {took}", file=self.out if self.interactive else self.err)
        self._flush()

    def _write(self, df: DataFrame, counts: list[Limited]) -> None:
        limit, spool = self.limit, self.connection.folder
        if self.form == "json":
            shown = json_texts(df, limit, spool)
            rendered: Iterator[str] = (cell or "null" for (cell,) in shown)
        else:
            result, shown = texts(df, limit, spool)
            if self.form not in STREAMED:
                result = Result(result.names, list(result.rows), result.numeric)  # computed before the first line is written
            rendered = lines(result, self.form, self._width())
        to_terminal = self.out.isatty()
        for line in rendered:
            if to_terminal:
                self.progress.hide()
            self.out.write(line + "\n")
        self.out.flush()
        counts.append(shown)

    def _width(self) -> int | None:
        return shutil.get_terminal_size().columns if self.out.isatty() else None

    def _counted(self, rows: Limited) -> str:
        count = "1 row" if rows.count == 1 else f"{rows.count:,} rows"
        if not rows.more:
            return count
        how = (
            f"`limit {rows.count * 10}` or `limit none` shows" if self.interactive else "--limit none, --format csv or --format json gives"
        )
        return f"first {count}, there are more ({how} them)"

    def _flush(self) -> None:
        self.out.flush()
        self.err.flush()


def let_go_of_stdout() -> None:
    """After a reader such as `head` has gone: what is left in the buffer must not raise when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

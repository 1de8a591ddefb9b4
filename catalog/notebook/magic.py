"""`%sql` and `%%sql`: what is written behind them, and what becomes of each statement."""

from __future__ import annotations

import calendar
import datetime
import keyword
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand
from IPython.display import display
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr, lit

from streamtime.door.registration import register
from streamtime.notebook.answer import Answer
from streamtime.notebook.completing import Completing
from streamtime.notebook.progress import Displayed
from streamtime.pictures.plotting import plot
from streamtime.session import session
from streamtime.shell.failures import readable
from streamtime.shell.results import row_limit
from streamtime.shell.running import Cancelled, Progress, Runner
from streamtime.shell.script import CommentedStatement, Unclosed, statements, tokens
from streamtime.sparks import UnsupportedSparkError
from streamtime.sql.call.errors import did_you_mean, gist, unlogged
from streamtime.sql.call.remote import is_remote
from streamtime.statements import hints
from streamtime.statements.query import is_named, query

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import DataFrame

LIMIT = 1000
OPTION = re.compile(r"\s*--(?P<name>[A-Za-z]\w*)(?:[ =]+(?P<value>\S+))?")
OPTIONS = ("limit", "plot")
NAME = re.compile(r"\s*(\w+)\s*<<")


class SqlError(Exception):
    """A statement failed, or could not be read. A notebook shows what it says, and no traceback; the cells below do not run."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@dataclass(frozen=True)
class CellRequest:
    """What stands in a cell: SQL, how many rows are shown, whether it is drawn, and the variable that is to have the DataFrame."""

    text: str
    limit: int | None = LIMIT
    drawn: bool = False
    name: str | None = None


def read(line: str, cell: str | None) -> CellRequest:
    """What is written behind `%sql`, or behind `%%sql` and below it. Raises SqlError."""
    limit: int | None = LIMIT
    drawn, name = False, None
    while option := OPTION.match(line):
        end = option.end()
        if option["name"] == "limit":
            limit = _limit(option["value"])
        elif option["name"] == "plot":
            drawn, end = True, option.end("name")
        else:
            known = did_you_mean(option["name"], OPTIONS) or "There are --limit N and --plot."
            raise SqlError(f"%sql: there is no option --{option['name']}. {known} A comment needs a space behind its dashes.")
        line = line[end:]
    if match := NAME.match(line):
        name, line = match[1], line[match.end() :]
        if not name.isidentifier() or keyword.iskeyword(name):
            raise SqlError(f"%sql: expected a variable before <<, got {name}")
    if drawn and name:
        raise SqlError("%sql: --plot draws, and gives no DataFrame: write one of --plot and `name <<`.")
    return CellRequest(line if cell is None else f"{line}\n{cell}", limit, drawn, name)


def _limit(text: str | None) -> int | None:
    try:
        return row_limit(text or "")
    except ValueError as problem:
        raise SqlError(f"%sql: --limit: {problem}") from None


class Sql:
    """The magic of one notebook, with the session that it talks to."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.spark: SparkSession | None = None
        self.completing = Completing(shell)

    @no_var_expand  # braces and dollars are SQL's own
    def sql(self, line: str, cell: str | None = None) -> Answer | Any:
        """Run SQL: `%sql SELECT 1`, or a cell of statements below `%%sql`. Shows what each gives.

        %%sql --limit 50              at most so many rows are fetched and shown; none: all
        %%sql name <<                 the last result as a DataFrame in a variable, and nothing is shown
        %%sql --plot                  a picture of the call, in place of its rows
        SELECT * FROM t WHERE day = :day      :day is the notebook's variable `day`, as a value, never as text
        """
        asked = read(line, cell)
        try:
            spoken = [s for s in statements(asked.text) if tokens(s.sql)]
        except Unclosed as error:
            raise SqlError(f"a quote or a comment is not closed: {error}") from None
        if not spoken:
            raise SqlError("%sql: there is no statement. Write it behind %sql, or below %%sql.")
        shown: Answer | None = None
        for number, statement in enumerate(spoken, 1):
            if shown is not None:
                display(shown)  # type: ignore[no-untyped-call]
            try:
                shown = self._answer(statement.sql, asked, last=number == len(spoken))
            except SqlError as error:
                raise SqlError(f"{_place(spoken, number, asked.text)}{error}") from None
        return shown

    def _answer(self, sql: str, asked: CellRequest, last: bool) -> Any:
        """Run one statement: what is to be shown of it."""
        made: list[Any] = []

        def work() -> None:
            with unlogged():
                if last and asked.drawn:
                    made.append(plot(spark, sql, args={**self._parameters(sql)}))
                    return
                df = self.ask(sql, self._parameters(sql))
                if not df.columns:
                    return
                made.append(df if last and asked.name else Answer.of(df, asked.limit))

        began = time.monotonic()
        try:
            spark = self._session()
            Runner(spark, is_remote(spark), self._progress()).run(work)
        except Cancelled as cancelled:
            raise SqlError(f"cancelled after {time.monotonic() - began:.1f} s{f', {cancelled}' if str(cancelled) else ''}") from None
        except SqlError:
            raise
        except Exception as error:
            hints.explain(error, sql)
            said = readable(error, sql)
            if "[UNBOUND_SQL_PARAMETER]" in said:
                said += "\n:name is the value of the notebook's variable of that name. Give it one in a cell above."
            raise SqlError(said) from None
        self.completing.forget()
        if not (last and asked.name):
            return made[0] if made else None
        if not made:
            raise SqlError(f"this statement ran, and gives no rows: there is no DataFrame for `{asked.name}`.")
        self.shell.user_ns[asked.name] = made[0]
        return None

    def _session(self) -> SparkSession:
        """The notebook's `spark`, else the active session, else a new local one; with the pack, or where that cannot be, `query`."""
        given = self.shell.user_ns.get("spark")
        own: SparkSession = given if isinstance(given, SparkSession) or is_remote(given) else SparkSession.getActiveSession() or session()
        self.shell.user_ns.setdefault("spark", own)
        if own is not self.spark:
            self.ask = _asking(own)
            self.completing.learn_of(own)
            self.spark = own
        return own

    def _parameters(self, sql: str) -> Mapping[str, Any]:
        """Those variables of the notebook that stand in the text as `:name`."""
        names = sorted({token.text for token in tokens(sql) if is_named(sql, token)})
        values = {name: self.shell.user_ns[name] for name in names if name in self.shell.user_ns}
        for name, value in values.items():
            try:
                values[name] = parameter(value)
                lit(values[name])
            except Exception as error:
                what = f"the variable `{name}` is a {type(value).__name__}, which no SQL value is made of ({gist(error)})"
                raise SqlError(f"%sql: {what}") from None
        return values

    def _progress(self) -> Progress:
        return Progress() if sys.stderr.isatty() else Displayed()


def _asking(spark: SparkSession) -> Callable[[str, Mapping[str, Any]], DataFrame]:
    """How statements are given to the session: to Spark itself where it knows the functions."""
    try:
        doors = register(spark).doors
    except UnsupportedSparkError:
        doors = ()
    run = spark.sql if {"analyzer", "server"} & {*doors} else partial(query, spark)
    return lambda sql, given: run(sql, args=dict(given)) if given else run(sql)


def parameter(value: Any) -> Any:
    """What a variable is in SQL: a day or a moment as SQL writes it. PySpark's own way leads through the calendar that Java had before:
    it has no years below 1000, and other days before 1582. A moment without a time zone is one of this computer's, as PySpark has it."""
    if isinstance(value, datetime.datetime):
        own, wall = value.utcoffset(), value.replace(tzinfo=None)
        here = calendar.timegm(wall.timetuple()) - int(time.mktime(wall.timetuple()))
        ahead = here if own is None else own // datetime.timedelta(seconds=1)
        hours, minutes, seconds = abs(ahead) // 3600, abs(ahead) // 60 % 60, abs(ahead) % 60
        return expr(f"TIMESTAMP_LTZ '{wall.isoformat(' ')}{'-' if ahead < 0 else '+'}{hours:02d}:{minutes:02d}:{seconds:02d}'")
    return expr(f"DATE '{value.isoformat()}'") if isinstance(value, datetime.date) else value


def _place(pieces: list[CommentedStatement], number: int, text: str) -> str:
    """Which of several statements it is, for people."""
    if len(pieces) == 1:
        return ""
    line = text.count("\n", 0, pieces[number - 1].start) + 1
    left = len(pieces) - number
    rest = f", and {left} more {'was' if left == 1 else 'were'} not run" if left else ""
    return f"statement {number} of {len(pieces)}, line {line} of the cell, failed{rest}:\n"


def load(shell: InteractiveShell) -> None:
    """Put the magic into a shell; to do it again changes nothing."""
    if not isinstance(getattr(shell.magics_manager.magics["cell"].get("sql"), "__self__", None), Sql):
        magic = Sql(shell)
        for kind in ("line", "cell"):
            shell.register_magic_function(magic.sql, kind, "sql")  # type: ignore[arg-type]

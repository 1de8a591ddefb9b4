"""Pages that people read, as blocks that run, and what each page shows as their output.

A fenced block of `sql`, `python`, `ipython` (a cell) or `console` runs, one after the other, in a session of the page's own. What it shows stands directly below: a
Markdown table, or a block of `text`, which for SQL is an error. In between, `<!-- run` .. `-->` is SQL that runs and that no reader sees.
A block that cannot run here has `<!-- not run: why -->` above it. What stands there must be what came out; STREAMTIME_GOLDEN=write puts it there.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import NumericType
from support.programs.notebook import Notebook

from streamtime.shell import cli, connection
from streamtime.shell.failures import readable
from streamtime.shell.rendering import Result, markdown
from streamtime.shell.script import statements

FENCE = re.compile(r"```(\w*)$")
UNRUN = re.compile(r"<!-- not run: (.+) -->$")
ASKS = re.compile(r"\s*(SELECT|WITH|FROM|TABLE|VALUES|SHOW|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """Lines of a page, counted from 1: `line` is the first one of the text, `shown` those of the output, from and to."""

    line: int
    language: str
    text: str
    hidden: bool
    unrun: str
    shown: tuple[int, int] | None
    as_text: bool  # not as a table


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page. Raises ValueError at what is no block and looks like one."""
    lines, at = page.splitlines(), 0

    def end(mark: str, start: int) -> int:
        return next(i for i in range(start, len(lines)) if lines[i] == mark)

    while at < len(lines):
        line, reason = lines[at], ""
        if (found := UNRUN.match(line)) is not None:
            reason, at = found[1], at + 1
            line = lines[at]
        if line == "<!-- run":
            last, language = end("-->", at), "sql"
        elif (fence := FENCE.match(line)) is not None:
            last, language = end("```", at + 1), fence[1]
        elif reason or "```" in line or line.lstrip().startswith("<!-- run"):
            raise ValueError(f"line {at + 1}: neither a block nor prose: {line!r}")
        else:
            at += 1
            continue
        first, shown, as_text, below = at + 1, None, False, last + 2
        if below < len(lines) and lines[last + 1] == "" and not reason:
            if lines[below].startswith("|"):
                to = next((i for i in range(below, len(lines)) if not lines[i].startswith("|")), len(lines))
                shown = (below + 1, to)
            elif lines[below] == "```text":
                shown, as_text = (below + 1, end("```", below) + 1), True
        yield Block(first + 1, language, "\n".join(lines[first:last]), line == "<!-- run", reason, shown, as_text)
        at = last + 1 if shown is None else shown[1]


class Kept(connection.Connection):
    """A session that outlives the command that it is lent to."""

    def close(self) -> None:
        pass


class Reader:
    """Runs the blocks of one page. `/tmp/` on a page is a folder of this run."""

    def __init__(self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spark, self.folder = spark, folder
        self.names: dict[str, Any] = {"spark": spark}
        self.notebook: Notebook | None = None
        monkeypatch.setattr("streamtime.session", lambda *_, **__: spark)
        monkeypatch.setattr(connection, "local", lambda *_, **__: Kept(spark, spark.sql, False))
        monkeypatch.chdir(folder)

    def read(self, page: str) -> str:
        """The page with what its blocks put out, in place of what it shows."""
        lines = page.splitlines()
        for of, output in reversed([(block, self.output(block)) for block in blocks(page) if not block.unrun]):
            if of.language == "console":
                lines[of.line - 1 : of.line - 1 + len(of.text.splitlines())] = output.splitlines()
            elif of.shown and cells(output) == cells(lines[of.shown[0] - 1]):
                lines[of.shown[0] - 1 : of.shown[1]] = output.splitlines()
            elif of.shown and not output:
                raise AssertionError(
                    f"line {of.line}: it puts out nothing. Is what stands below it a table of another kind? Put prose between."
                )
            elif output and not of.hidden:  # a table below it that has other columns is another table
                below = of.line + len(of.text.splitlines())
                lines[below:below] = ["", *output.splitlines()]
        if self.notebook is not None:
            self.notebook.close()
        return "\n".join(lines) + "\n"

    def output(self, block: Block) -> str:
        text = block.text.replace("/tmp/", f"{self.folder}/")
        try:
            made = {"sql": self.sql, "python": self.python, "ipython": self.cell, "console": self.console}[block.language](text, block)
        except KeyError:
            raise AssertionError(
                f"line {block.line}: is `{block.language}` output? It must follow directly. Or say why it is not run."
            ) from None
        return made.replace(f"{self.folder}/", "/tmp/")

    def sql(self, text: str, block: Block) -> str:
        asked = [statement.sql for statement in statements(text)]
        output = ""
        for sql in asked:
            try:
                df = self.spark.sql(sql)
                if not df.columns or ASKS.match(sql) is None:
                    output = ""
                    continue
                names, numeric = tuple(df.columns), tuple(isinstance(field.dataType, NumericType) for field in df.schema)
                columns = (f"CAST(c{i} AS STRING)" for i in range(len(names)))
                rows = [tuple(row) for row in df.toDF(*(f"c{i}" for i in range(len(names)))).selectExpr(*columns).collect()]
            except Exception as error:
                if sql is asked[-1] and block.as_text:
                    return fenced(readable(error, sql))
                raise
            if "ORDER BY" not in sql.rpartition(")")[2]:
                rows.sort(key=str)
            if len(names) == 1 and any(cell and "\n" in cell for (cell,) in rows):
                output = fenced("\n".join(cell or "" for (cell,) in rows))
            else:
                output = markdown(Result(names, rows, numeric))
        return output

    def python(self, text: str, block: Block) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("\n" * (block.line - 1) + text, "page", "exec"), self.names)
        return fenced(said.getvalue().rstrip()) if said.getvalue().strip() else ""

    def cell(self, text: str, block: Block) -> str:
        if self.notebook is None:
            self.notebook = Notebook(**self.names)
        shown = self.notebook.shown(text)
        return fenced(shown) if shown else ""

    def console(self, text: str, block: Block) -> str:
        """`$ streamtime ..` is run; `$ cat FILE` writes the file that it shows."""
        made: list[str] = []
        for part in filter(None, re.split(r"(?m)^(?=\$ )", text)):
            command, _, shown = part.partition("\n")
            words = shlex.split(command.removeprefix("$ "))
            made.append(command)
            if words[0] == "cat":
                Path(words[1]).write_text(shown)
                made += shown.splitlines()
                continue
            quiet, out, err = "2>/dev/null" in words, io.StringIO(), io.StringIO()
            assert words[0] == "streamtime", f"line {block.line}: cannot run {command}"
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main([word for word in words[1:] if word != "2>/dev/null"])
            made += [*out.getvalue().splitlines(), *([] if quiet else err.getvalue().splitlines())]
        return "\n".join(line.rstrip() for line in made)


def cells(table: str) -> list[str]:
    """What stands in the first line."""
    return table.partition("\n")[0].replace("|", " ").split()


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"

"""orders.sql as a notebook with its outputs, and as two Databricks notebooks: with the calls, and compiled, for where the pack is not.

The comment of a statement is what the notebook says before it; a line of it that begins with `%%sql` is the head of the statement's cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import streamtime
from streamtime.shell.script import statements

HERE = Path(__file__).parent
BEGIN = "# Databricks notebook source\n"
BETWEEN = "\n# COMMAND ----------\n\n"
INSTALL = """%pip install --no-deps /Volumes/main/default/wheels/streamtime-0.1.0-py3-none-any.whl
%pip install 'sqlglot>=30,<31' 'jinja2>=3.1' 'pandas>=2.2,<3' 'prompt_toolkit>=3.0.48' 'tabulate>=0.9' 'wcwidth>=0.2.13'"""
DOORS = "import streamtime\n\nprint(streamtime.register(spark))"
NOT_RUN = "**Not run on Databricks**: made of `orders.sql`, whose statements run on Apache Spark."
OPEN = f"""{NOT_RUN} `%sql` knows the functions where the doors that the next cell prints have `analyzer` or `server` among them.
Elsewhere, give each text to `streamtime.query(spark, "..")`, or take `databricks_plain.py`."""
PLAIN = f"{NOT_RUN} Each statement is compiled by `streamtime.compile`: it needs nothing of streamtime where it runs."
Compile = Callable[[str], str]


@dataclass(frozen=True)
class Cell:
    """A statement, what is said before it, and what stands behind `%%sql`."""

    prose: str
    options: str
    sql: str


def cells(script: str) -> Iterator[Cell]:
    """The statements of a script."""
    for statement in statements(script):
        heads = [line for line in statement.comment if line.startswith("%%sql")]
        prose = "\n".join(line for line in statement.comment if line not in heads)
        yield Cell(prose.strip(), heads[0].removeprefix("%%sql").strip() if heads else "", statement.sql)


def as_notebook(script: str) -> nbformat.NotebookNode:
    """For Jupyter, without outputs."""
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    made = [code("%load_ext streamtime")]
    for cell in cells(script):
        made += [text(cell.prose)] if cell.prose else []
        made.append(code(f"%%sql {cell.options}".strip() + f"\n{cell.sql}"))
        if cell.options.endswith("<<"):
            made.append(code(f"{cell.options.removesuffix('<<').strip()}.toPandas()"))
    for number, one in enumerate(made):
        one["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel})


def executed(notebook: nbformat.NotebookNode, folder: Path = HERE) -> nbformat.NotebookNode:
    """With its outputs: without what a terminal says when Spark starts, and without the places of progress that is over."""
    where = {"metadata": {"path": str(folder)}}
    done = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False, resources=where).execute()
    for cell in done.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.output_type != "stream" and out.get("data", {}).get("text/plain") != ""]
    done.metadata.pop("language_info", None)  # which names the version of Python
    return done


def as_databricks(script: str, compiled: Compile | None = None) -> str:
    """For Databricks, as its source files are; with `compiled`, of statements that need no pack."""
    made = [magic("md", PLAIN if compiled else OPEN)]
    made += [] if compiled else [*(f"# MAGIC {line}" for line in INSTALL.splitlines()), DOORS]
    for cell in cells(script):
        made += [magic("md", cell.prose)] if cell.prose else []
        name = cell.options.removesuffix("<<").strip() if cell.options.endswith("<<") else None
        sql = compiled(cell.sql) if compiled else cell.sql
        if name:
            made.append(f"{name} = spark.sql({quoted(sql)})\ndisplay({name})")
        elif cell.options != "--plot":
            made.append(magic("sql", sql))
        elif not compiled:
            made.append(f"displayHTML(streamtime.plot(spark, {quoted(sql)})._repr_svg_())")
    return BEGIN + BETWEEN.join(f"{cell}\n" for cell in made)


def magic(language: str, text: str) -> str:
    """A cell in another language."""
    return "\n".join(f"# MAGIC {line}".rstrip() for line in (f"%{language}", *text.splitlines()))


def quoted(sql: str) -> str:
    """A SQL text as Python has it, on its lines."""
    assert '"""' not in sql
    assert "\\" not in sql
    return f'"""\n{sql}\n"""'


def compiling(spark: Any) -> Compile:
    """Compiles a statement, and runs it, as later ones may read what it makes."""

    def compiled(sql: str) -> str:
        spark.sql(sql)
        return streamtime.compile(spark, sql, dialect="databricks")

    return compiled


def main() -> int:
    """Write all three."""
    script = (HERE / "orders.sql").read_text()
    nbformat.write(executed(as_notebook(script)), HERE / "orders.ipynb")
    (HERE / "databricks.py").write_text(as_databricks(script))
    (HERE / "databricks_plain.py").write_text(as_databricks(script, compiling(streamtime.session())))
    print(*sorted(path.name for path in HERE.iterdir() if path.is_file()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line: `streamtime sql`, `serve`, `compile`, `export`, `dbt`, `maintain`, `plot`, `explore`, `functions` and `doctor`."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtime.dbt import command as dbt_command
from streamtime.explore.command import add_pictures, draw
from streamtime.maintained import command as maintenance
from streamtime.plain import command as exporting
from streamtime.plain.compiling import DIALECTS
from streamtime.shell.rendering import FORMATS, lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """\
examples:
  streamtime sql                            a SQL shell with Delta Lake and the functions of this pack
  streamtime sql -e "SELECT 1; SELECT 2"    statements, and out again
  streamtime serve                          the same for Spark Connect and JDBC clients: Python, dbt, BI tools
  streamtime compile daily.sql              the same statements without calls, for where the pack cannot run
  streamtime export databricks daily.sql    the same, with functions for Unity Catalog where a call has no plain SQL
  streamtime dbt compile                    a dbt project the same way
  streamtime maintain shop.revenue q.sql    a table that is kept equal to a query
  streamtime plot daily.sql                 what the last call in it did to its rows, on a time axis
  streamtime explore daily.sql              the same as a page, with a slider for each duration
  streamtime functions deduplicate          the reference page of a function
  streamtime doctor                         what works here, what does not, and what to do
"""
SQL = """\
Without -e and -f: a shell, where `help` says what there is. Input that is not a terminal is read as a script.

Results are tables fitted to the terminal. The shell shows 100 rows of a result and a script 1,000, and says so where there are
more; csv and json (one object per line) give all rows of a script, row by row. Row counts and times go to stderr. A failed statement
ends a script with exit code 1, Ctrl-C with 130.
"""
SQL_EXAMPLES = """\
examples:
  streamtime sql -e "SELECT * FROM delta.\\`/data/clicks\\` LIMIT 5"
  streamtime sql -f daily.sql --format csv > daily.csv
  echo "SHOW TABLES" | streamtime sql --warehouse ~/warehouse --format json
  streamtime sql --cores 2 --memory 8g --conf spark.sql.shuffle.partitions=16
  streamtime sql --remote sc://localhost:15002
"""
COMPILE = """\
Writes statements with calls of the pack as plain Spark SQL, which needs no pack where it runs. Nothing is read: only the columns of
tables must be known, from a warehouse folder, from --table or from --tables. Exit code 1 if a call is wrong, or has no plain SQL: then
stderr says why.
"""
COMPILE_EXAMPLES = """\
examples:
  streamtime compile daily.sql --warehouse ~/warehouse > plain.sql
  streamtime compile daily.sql --table "clicks=user_id STRING, ts TIMESTAMP" --check
  streamtime compile daily.sql --tables columns.json --dialect databricks
  echo "SELECT * FROM VERSIONS(TABLE(log) PARTITION BY k ORDER BY at)" | streamtime compile --table "log=k STRING, at TIMESTAMP"
"""
DOCTOR_EXAMPLES = """\
examples:
  streamtime doctor
  streamtime doctor --remote sc://localhost:15002 --format json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code: 0 for success, 1 for a failure, 2 for a wrong option, 130 after Ctrl-C."""
    options = parser().parse_args(arguments)
    commands = {
        **{"sql": sql, "serve": serve, "password": password, "compile": compiled, "export": compiled, "dbt": dbt, "maintain": maintained},
        **{"plot": drawn, "explore": drawn, "functions": functions, "doctor": doctor},
    }
    try:
        code = commands[options.command](options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        from streamtime.shell.console import let_go_of_stdout

        let_go_of_stdout()
        return 1


def parser() -> argparse.ArgumentParser:
    """The options of all commands."""
    from streamtime.server import command

    formatter = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        "streamtime",
        description="Stream-processing semantics as SQL table functions for Spark.",
        epilog=EXAMPLES,
        formatter_class=formatter,
    )
    top.add_argument("--version", action="version", version=_version())
    commands = top.add_subparsers(
        dest="command", required=True, metavar="{sql,serve,password,compile,export,dbt,maintain,plot,explore,functions,doctor}"
    )

    one = commands.add_parser("sql", help="run SQL, or open a SQL shell", description=SQL, epilog=SQL_EXAMPLES, formatter_class=formatter)
    what = one.add_mutually_exclusive_group()
    what.add_argument("-e", dest="texts", action="append", metavar="SQL", help="statements to run, with ; in between; may be repeated")
    what.add_argument("-f", dest="files", action="append", metavar="FILE", help="a script to run, - for stdin; may be repeated")
    one.add_argument("--format", choices=FORMATS, default="table", help="how results are written (default: table)")
    one.add_argument("--limit", type=_limit, metavar="N", help="rows that are shown of each result, or none for all")
    _session(one.add_argument_group("the local session"), "they last as long as the session")
    other = one.add_argument_group("or a Spark Connect server")
    other.add_argument("--remote", metavar="URL", help="sc://host:port; none of the local options then applies")

    command.add(commands, formatter, _session)

    made = commands.add_parser(
        "compile", help="statements as plain Spark SQL", description=COMPILE, epilog=COMPILE_EXAMPLES, formatter_class=formatter
    )
    made.add_argument("file", nargs="?", default="-", metavar="FILE", help="the statements (default: stdin)")
    made.add_argument("--table", type=_setting, action="append", metavar="NAME=COLUMNS", help="a table's columns; may be repeated")
    made.add_argument("--tables", type=Path, metavar="FILE", help='a JSON file with columns of tables: {"NAME": "COLUMNS"}')
    made.add_argument("--warehouse", type=Path, metavar="DIR", help="the folder where `streamtime sql` keeps tables and views")
    made.add_argument("--conf", type=_setting, action="append", metavar="KEY=VALUE", help="a Spark setting; may be repeated")
    made.add_argument("--dialect", choices=DIALECTS, default="spark", help="refuse what Databricks does not have (default: spark)")
    made.add_argument("--check", action="store_true", help="have Spark plan the plain text, too")

    exporting.add(commands, formatter, _setting)
    dbt_command.add(commands, formatter)
    maintenance.add(commands, formatter, _session)
    add_pictures(commands)
    two = commands.add_parser(
        "functions", help="list the functions, or show one", description="Lists the functions, or prints the reference page of one."
    )
    two.add_argument("name", nargs="?", metavar="NAME", help="a function, such as deduplicate")
    two.add_argument("--format", choices=FORMATS, default="table", help="how the list is written (default: table)")

    three = commands.add_parser(
        "doctor",
        help="check what works here",
        description="Checks what streamtime needs, each thing by itself, and says what to do. Exit code 0 if all that is required works.",
        epilog=DOCTOR_EXAMPLES,
        formatter_class=formatter,
    )
    three.add_argument("--remote", metavar="URL", help="check a Spark Connect server too, sc://host:port")
    three.add_argument("--format", choices=("table", "json"), default="table", help="lines for people, or JSON (default: table)")
    return top


def _session(group: Any, warehouse: str) -> None:
    group.add_argument("--cores", type=_cores, default="*", metavar="N", help="how many cores it uses (default: all)")
    group.add_argument("--memory", type=_memory, default="2g", help="memory of the JVM (default: 2g)")
    group.add_argument("--conf", type=_setting, action="append", metavar="KEY=VALUE", help="a Spark setting; may be repeated")
    group.add_argument("--warehouse", type=Path, metavar="DIR", help=f"keep tables and views in this folder (default: {warehouse})")


def sql(options: argparse.Namespace) -> int:
    """`streamtime sql`."""
    from streamtime.java import JavaError
    from streamtime.shell.batch import UnreadableScript, run, split
    from streamtime.shell.connection import ConnectionFailed, local, masked, remote
    from streamtime.shell.console import SCRIPT_LIMIT, SHELL_LIMIT, Console
    from streamtime.shell.rendering import STREAMED

    interactive = not options.texts and not options.files and sys.stdin.isatty()
    files = options.files or ([] if interactive or options.texts else ["-"])
    try:
        texts = [(text, "") for text in options.texts or ()] + [(_read(name), "stdin" if name == "-" else name) for name in files]
        script = [statement for text, source in texts for statement in split(text, source)]
        if not interactive and not script:
            return _fail("there is no statement to run")
        if sys.stderr.isatty() and not options.remote:
            print("Starting Spark ..", end="", file=sys.stderr, flush=True)
        opened = (
            remote(options.remote) if options.remote else local(options.cores, options.memory, dict(options.conf or ()), options.warehouse)
        )
    except (UnreadableScript, ConnectionFailed, JavaError, OSError, UnicodeDecodeError) as problem:
        return _fail(str(problem))
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    limit = SHELL_LIMIT if interactive else None if options.format in STREAMED else SCRIPT_LIMIT
    console = Console(opened, options.format, limit if options.limit is None else options.limit or None, interactive)
    try:
        if not interactive:
            return run(console, script)
        from streamtime.shell.prompt import Shell

        where = f"tables are kept in {options.warehouse}" if options.warehouse else "tables last as long as this shell"
        where = masked(options.remote) if options.remote else where
        print(f"streamtime {_version()}, Spark {opened.spark.version}, {where}. `help` says what there is; Ctrl-D leaves.")
        return Shell(console).run()
    finally:
        opened.close()


def serve(options: argparse.Namespace) -> int:
    """`streamtime serve`."""
    from streamtime.java import JavaError
    from streamtime.server import command, serving
    from streamtime.server.options import CannotServe
    from streamtime.shell.connection import start_failure

    given = command.options(options)
    try:
        return serving.serve(given)
    except serving.NotStarted as failed:
        return _fail(start_failure(failed.error, failed.said, given.warehouse))
    except (CannotServe, JavaError) as problem:
        return _fail(f"serve: {problem}")


def password(options: argparse.Namespace) -> int:
    """`streamtime password`."""
    from streamtime.server import command, passwords
    from streamtime.server.options import CannotServe

    try:
        print(passwords.line(options.user, command.asked_password()))
        return 0
    except CannotServe as problem:
        return _fail(f"password: {problem}")


def compiled(options: argparse.Namespace) -> int:
    """`streamtime compile` and `streamtime export`."""
    from pyspark.errors import PySparkException

    import streamtime
    from streamtime.java import JavaError
    from streamtime.plain.tables import read
    from streamtime.shell.connection import ConnectionFailed, local

    try:
        text = _read(options.file)
        opened = local(settings=dict(options.conf or ()), warehouse=options.warehouse)
    except (ConnectionFailed, JavaError, OSError, UnicodeDecodeError) as problem:
        return _fail(str(problem))
    try:
        tables = {**(read(options.tables) if options.tables else {}), **dict(options.table or ())}
        if options.command == "export":
            print(exporting.run(options, opened.spark, text, tables))
        else:
            print(streamtime.compile(opened.spark, text, dialect=options.dialect, tables=tables, check=options.check))
        return 0
    except (PySparkException, ValueError) as problem:
        return _fail(str(problem))
    finally:
        opened.close()


def dbt(options: argparse.Namespace) -> int:
    """`streamtime dbt`."""
    import streamtime
    from streamtime.java import JavaError
    from streamtime.shell.connection import ConnectionFailed, local

    if options.what == "package":
        print(Path(streamtime.__file__).parent / "dbt" / "package")
        return 0
    try:
        from streamtime.dbt.project import compile_project, variables
    except ModuleNotFoundError as problem:
        return _fail(f"dbt is not installed here ({problem}): in a clone, pip install '.[dbt]'")
    project = options.project_dir.resolve()
    given = {f"--{name.replace('_', '-')}": getattr(options, name) for name in ("profiles_dir", "profile", "target")}
    passed = [text for name, value in given.items() if value for text in (name, value)]
    out = (options.out or project / "plain").resolve()
    with ExitStack() as stack:

        def start() -> SparkSession:
            opened = local(settings={})
            stack.callback(opened.close)
            return opened.spark

        try:
            written = compile_project(start, project, out, passed, variables(options.vars))
        except (ConnectionFailed, JavaError, ValueError) as problem:
            return _fail(str(problem))
    for path in written.compiled:
        print(path)
    for path, reason in written.refused.items():
        _fail(f"{path}: {reason}")
    return 1 if written.refused else 0


def maintained(options: argparse.Namespace) -> int:
    """`streamtime maintain`."""
    from pyspark.errors import PySparkException

    from streamtime.java import JavaError
    from streamtime.shell.connection import ConnectionFailed, local
    from streamtime.shell.failures import readable

    try:
        text, folder = _read(options.file), maintenance.warehouse(options)
        opened = local(options.cores, options.memory, dict(options.conf or ()), folder)
    except (ConnectionFailed, JavaError, OSError, UnicodeDecodeError, ValueError) as problem:
        return _fail(str(problem))
    try:
        print(maintenance.run(options, opened.spark, text))
        return 0
    except (PySparkException, ValueError, TimeoutError) as problem:
        return _fail(readable(problem, text))
    finally:
        opened.close()


def drawn(options: argparse.Namespace) -> int:
    """`streamtime plot` and `streamtime explore`."""
    from pyspark.errors import PySparkException

    from streamtime.java import JavaError
    from streamtime.shell.connection import ConnectionFailed, local, remote
    from streamtime.shell.failures import readable

    try:
        text = options.text or _read(options.file)
        opened = remote(options.remote) if options.remote else local(settings={}, warehouse=options.warehouse)
    except (ConnectionFailed, JavaError, OSError, UnicodeDecodeError) as problem:
        return _fail(str(problem))
    try:
        draw(options, opened.spark, text, readable)
        return 0
    except (PySparkException, ValueError, ImportError, OSError) as problem:
        return _fail(readable(problem, text))
    finally:
        opened.close()


def functions(options: argparse.Namespace) -> int:
    """`streamtime functions`."""
    from streamtime.shell import manual

    width = shutil.get_terminal_size().columns
    if options.name:
        try:
            print(manual.page(manual.find(options.name), width), end="")
        except manual.Unknown as problem:
            return _fail(str(problem))
        return 0
    listed = [manual.listing(width)] if options.format == "table" else lines(manual.overview(), options.format)
    print("\n".join(listed))
    return 0


def doctor(options: argparse.Namespace) -> int:
    """`streamtime doctor`."""
    from streamtime.shell.doctor import examine

    return examine(options.remote, options.format)


def _read(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


def _fail(problem: str) -> int:
    print(f"streamtime: {problem}", file=sys.stderr)
    return 1


def _version() -> str:
    import streamtime

    return streamtime.__version__


def _limit(text: str) -> int:
    """A number of rows; 0 stands for all."""
    from streamtime.shell.results import row_limit

    try:
        return row_limit(text) or 0
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _cores(text: str) -> str:
    if text != "*" and not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number above zero or *, got {text}")
    return text


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[mgMG]", text):
        raise argparse.ArgumentTypeError(f"expected a size such as 512m or 8g, got {text}")
    return text


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text}")
    return key, value

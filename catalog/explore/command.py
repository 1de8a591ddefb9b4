"""The commands `streamtime plot` and `streamtime explore`: their options, and what they do once there is a session."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLOT = """\
Draws what a call of the pack did to its rows: a lane for each key, rows as signs, windows, sessions and versions as bars, and a sentence
for each row that was dropped. Of several statements the last is drawn; the others run before it.
"""
PLOT_EXAMPLES = """\
examples:
  streamtime plot daily.sql --warehouse ~/warehouse
  streamtime plot -e "SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 30 MINUTES)" --svg clicks.svg
  streamtime plot daily.sql --where "user_id = 'ann'" --rows 100
"""
EXPLORE = """\
Serves a page, on this machine's loopback address, that draws what a call of the pack did to its rows: a slider for each duration of the
call, the SQL of the setting, the rows that were dropped, and what each row did, one by one. Open the address that is printed; it has a
token, so keep it to yourself. Ctrl-C stops it.
"""
EXPLORE_EXAMPLES = """\
examples:
  streamtime explore daily.sql --warehouse ~/warehouse
  streamtime explore -e "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)"
"""
Say = Callable[[BaseException, str], str]  # an error in words, and the text that it is about


def add_pictures(commands: Any) -> None:
    """Both commands, with their options."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    drawn = commands.add_parser("plot", help="a picture of what a call did to its rows", description=PLOT, epilog=PLOT_EXAMPLES, **style)
    _statements_of(drawn)
    drawn.add_argument("--width", type=_count, metavar="N", help="how many columns it may take (default: the terminal's)")
    drawn.add_argument("--svg", type=Path, metavar="FILE", help="write it as a SVG file, too, which needs matplotlib")
    page = commands.add_parser("explore", help="the same as a page, with sliders", description=EXPLORE, epilog=EXPLORE_EXAMPLES, **style)
    _statements_of(page)
    page.add_argument("--port", type=_port, default=0, metavar="N", help="where it listens (default: any free port)")


def draw(options: argparse.Namespace, spark: SparkSession, text: str, say: Say) -> None:
    """Do what the command says. Raises ValueError, ImportError, OSError, or Spark's own errors."""
    from streamtime.pictures.seeing import Limits

    limits = Limits(options.rows, options.keys, options.where)
    if options.command == "explore":
        from streamtime.explore.server import serve
        from streamtime.explore.study import Study

        study = Study.of(spark, text, options.call, limits)
        serve(study, options.port, say, lambda address: print(f"Open {address}", flush=True))
        return
    from streamtime.pictures.plotting import sketched

    width = options.width or shutil.get_terminal_size().columns
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") not in ("utf8", "utf16", "utf32")
    sketch = sketched(spark, text, width, ascii_only=plain, call=options.call, limits=limits)
    if options.svg:
        sketch.figure().savefig(options.svg, format="svg", bbox_inches="tight")
    print("\n".join(sketch.lines))


def _statements_of(command: argparse.ArgumentParser) -> None:
    """The options by which a command is told one call, how much of it is drawn, and where it runs."""
    what = command.add_mutually_exclusive_group()
    what.add_argument("file", nargs="?", default="-", metavar="FILE", help="the statements (default: stdin)")
    what.add_argument("-e", dest="text", metavar="SQL", help="the statements themselves")
    command.add_argument(
        "--call", type=_count, metavar="N", help="which call of the statement, as they are written (default: the outermost)"
    )
    command.add_argument("--where", metavar="CONDITION", help="which rows of the output are drawn, as a SQL condition")
    command.add_argument("--rows", type=_count, default=40, metavar="N", help="how many rows of each key are drawn (default: 40)")
    command.add_argument("--keys", type=_count, default=12, metavar="N", help="how many keys are drawn (default: 12)")
    command.add_argument("--warehouse", type=Path, metavar="DIR", help="the folder where `streamtime sql` keeps tables and views")
    command.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://host:port, in place of a local session")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number above zero, got {text}")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not int(text) < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text}")
    return int(text)

"""The options of `streamtime serve` and `streamtime password`, and what they say."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamtime.server.options import LOOPBACK, CannotServe, Options

SERVE = """\
Serves the functions, AS OF syntax and Delta Lake to Spark Connect clients (Python, `streamtime sql --remote`) and to JDBC/ODBC clients
(beeline, dbt, BI tools). Each client has a session of its own: its temporary views and settings are its own, tables are shared.

Without options, only this machine can connect, and whoever can log in to it may. Who connects can do what the user of this process can.
"""
SERVE_EXAMPLES = """\
examples:
  streamtime serve                                        on this machine, with tables in ./streamtime-warehouse
  streamtime serve --warehouse /data/shop --memory 8g --cores 4
  streamtime serve --temporary --connect-port 0 --thrift-port 0 --health-port 0 --ready-file ready.json
  streamtime password ana >> users && chmod 600 users
  streamtime serve --host 0.0.0.0 --connect-port off --passwords users --tls-keystore server.p12 --tls-password-file keystore-password
  streamtime serve --master spark://head:7077 --conf spark.driver.host=10.0.0.5 --cores 16

clients:
  SparkSession.builder.remote("sc://localhost:15002").getOrCreate()
  beeline -u jdbc:hive2://localhost:10000 -e "SELECT * FROM FUNCTION_CATALOG()"

The log has one line for each event. The line `ready` names the addresses; SIGTERM or Ctrl-C stops the server: nobody new comes in, running
queries have --grace seconds to end and are then cancelled, and the exit code is 0. A second signal cancels them at once.
"""


def add(commands: Any, formatter: Any, shared: Callable[[Any, str], None]) -> None:
    """Add both commands; `shared` adds the options of a session to a group, told where tables are kept by default."""
    one = commands.add_parser(
        "serve",
        help="serve the functions over Spark Connect and JDBC",
        description=SERVE,
        epilog=SERVE_EXAMPLES,
        formatter_class=formatter,
    )
    who = one.add_argument_group("who can connect")
    who.add_argument("--host", default=LOOPBACK, metavar="ADDRESS", help="where both doors listen; beyond this machine only with locks")
    who.add_argument("--connect-port", type=_port, default=15002, metavar="N", help="Spark Connect: a port, 0 for any free one, or off")
    who.add_argument("--thrift-port", type=_port, default=10000, metavar="N", help="JDBC and ODBC: the same (default: 10000)")
    who.add_argument("--connect-token-file", type=Path, metavar="FILE", help="Spark Connect's clients must show the token in this file")
    who.add_argument("--passwords", type=Path, metavar="FILE", help="JDBC's clients must be a user of this file; see `streamtime password`")
    who.add_argument("--tls-keystore", type=Path, metavar="FILE", help="JDBC by TLS, with this key (PKCS12 or JKS)")
    who.add_argument("--tls-password-file", type=Path, metavar="FILE", help="holds the password of the key")
    life = one.add_argument_group("start, health and stop")
    life.add_argument("--ready-file", type=Path, metavar="FILE", help="is written once all is ready: JSON with ports, addresses and pid")
    life.add_argument(
        "--health-port", type=_port, default=15003, metavar="N", help="GET /health: a port, 0 for any, or off (default: 15003)"
    )
    life.add_argument("--health-host", default=LOOPBACK, metavar="ADDRESS", help=f"where that listens (default: {LOOPBACK})")
    life.add_argument("--grace", type=_seconds, default=30, metavar="SECONDS", help="that running queries have to end (default: 30)")
    life.add_argument("--spark-log", type=Path, metavar="FILE", help="what Spark itself logs (default: spark.log in the warehouse)")
    session = one.add_argument_group("the driver")
    session.add_argument("--master", metavar="URL", help="a Spark cluster (default: this machine)")
    shared(session, "./streamtime-warehouse")
    session.add_argument("--temporary", action="store_true", help="keep none: tables and views go when the server stops")

    two = commands.add_parser(
        "password",
        help="a line for `serve --passwords`",
        description="Asks for a password, and writes a line for the file of `streamtime serve --passwords`, which does not hold it.",
    )
    two.add_argument("user", metavar="USER", help="the name that this user connects with")


def options(given: argparse.Namespace) -> Options:
    """What the command line asks for."""
    return Options(
        host=given.host,
        connect_port=given.connect_port,
        thrift_port=given.thrift_port,
        health_host=given.health_host,
        health_port=given.health_port,
        token_file=given.connect_token_file,
        passwords=given.passwords,
        keystore=given.tls_keystore,
        keystore_password_file=given.tls_password_file,
        grace=given.grace,
        ready_file=given.ready_file,
        master=given.master,
        cores=given.cores,
        memory=given.memory,
        settings=dict(given.conf or ()),
        warehouse=None if given.temporary else given.warehouse or Path("streamtime-warehouse"),
        spark_log=given.spark_log,
    )


def asked_password() -> str:
    """A password, typed twice in a terminal; else the first line of stdin.

    Raises:
        CannotServe: the second is another.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        first, second = getpass.getpass("Password: "), getpass.getpass("Again: ")
    except EOFError:  # Ctrl-D
        raise KeyboardInterrupt from None
    if first != second:
        raise CannotServe("the two passwords differ")
    return first


def _port(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, or off, got {text}")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text}")
    return int(text)

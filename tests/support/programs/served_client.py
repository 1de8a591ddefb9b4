"""A client of `streamtime serve` in a process of its own, over both doors: asks it everything, and writes down what came.

It says `running` when queries run, and the server may be told to stop. PLACE is a JSON file: the ports, and what opens the doors.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jvm import say
from puresasl.client import SASLClient
from pyhive import hive
from pyhive.sasl_compat import PureSASLClient
from pyspark.sql import SparkSession
from thrift.transport.TSSLSocket import TSSLSocket
from thrift_sasl import TSaslClientTransport

CALL = "DEDUPLICATE(TABLE(shop.clicks) PARTITION BY k ORDER BY ts, within => INTERVAL 10 SECONDS)"
AS_OF = "SELECT a.v, b.v FROM shop.clicks a LEFT ASOF JOIN shop.clicks b MATCH_CONDITION (a.ts > b.ts) ON a.k = b.k ORDER BY 1"
SETUP = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.clicks USING delta AS SELECT k, timestamp_seconds(s) AS ts, v"
    " FROM VALUES (1, 0, 'a'), (1, 5, 'b'), (1, 20, 'c'), (2, 3, 'd') AS e(k, s, v)",
    f"CREATE VIEW shop.clean AS SELECT * FROM {CALL}",
)
WRONG = {
    "no column": f"SELECT * FROM {CALL.replace('BY k', 'BY nope')}",
    "no option": f"SELECT * FROM {CALL.replace('within', 'withn')}",
    "no table": f"SELECT * FROM {CALL.replace('clicks', 'nowhere')}",
    "in a task": "SELECT raise_error('boom')",
}
SECRETS = "spark.connect.authenticate.token", "hive.server2.keystore.password"
SLEEP = "SELECT count(*) FROM range(0, {rows}, 1, 1) WHERE java_method('java.lang.Thread', 'sleep', bigint(100)) IS NULL"


class Place:
    """Where the server is, and how its doors are opened."""

    def __init__(self, path: str) -> None:
        self.found: dict[str, Any] = json.loads(Path(path).read_text())

    def connect(self, token: str | None = None) -> Any:
        """A new session of Spark Connect, by the proxy that has TLS."""
        shown = self.found["token"] if token is None else token
        return SparkSession.builder.remote(f"sc://localhost:{self.found['proxy_port']}/;use_ssl=true{shown and f';token={shown}'}").create()

    def jdbc(self, password: str | None = None, user: str = "ana") -> Any:
        """A new connection of PyHive, by TLS."""
        given = self.found["password"] if password is None else password

        def sasl() -> SASLClient:
            return PureSASLClient("localhost", username=user, password=given, mechanism="PLAIN")

        socket = TSSLSocket(self.found["host"], self.found["thrift_port"], ca_certs=self.found["certificate"], server_hostname="localhost")
        return hive.connect(thrift_transport=TSaslClientTransport(sasl, "PLAIN", socket))


def asked(connection: Any, text: str) -> list[Any]:
    """Rows over JDBC."""
    cursor = connection.cursor()
    cursor.execute(text)
    return [list(row) for row in cursor.fetchall()] if cursor.description else []


def error(work: Callable[[], Any]) -> str:
    """What it raises, all of it."""
    try:
        return f"no error, but {work()}"
    except Exception as failed:
        return f"{type(failed).__name__}: {failed}"


def everything(place: Place, channel: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    jdbc, spark = place.jdbc(), place.connect()
    for statement in SETUP:
        asked(jdbc, statement)

    def collected(session: Any, text: str) -> list[Any]:
        return [list(row) for row in session.sql(text).collect()]

    doors = {"jdbc": lambda text: asked(jdbc, text), "connect": lambda text: collected(spark, text)}
    for door, ask in doors.items():
        seen[f"{door} call"] = ask(f"SELECT v FROM {CALL} ORDER BY v")
        seen[f"{door} view"] = ask("SELECT v FROM shop.clean ORDER BY v")
        seen[f"{door} as of"] = ask(AS_OF)
        seen[f"{door} help"] = ask("DESCRIBE FUNCTION deduplicate")[1:2]
        seen[f"{door} errors"] = {name: error(lambda: ask(text)) for name, text in WRONG.items()}  # noqa: B023
        seen[f"{door} after errors"] = ask("SELECT 1")

    others = {"jdbc": place.jdbc(), "connect": place.connect()}
    for door, ask in doors.items():
        ask("CREATE TEMP VIEW mine AS SELECT 7 AS n")
        ask("SET spark.sql.session.timeZone = Asia/Tokyo")
        other = (lambda text: asked(others["jdbc"], text)) if door == "jdbc" else (lambda text: collected(others["connect"], text))
        seen[f"{door} mine"] = ask("SELECT * FROM mine")
        seen[f"{door} other's view"] = error(lambda: other("SELECT * FROM mine"))  # noqa: B023
        seen[f"{door} other's zone"] = other("SELECT current_timezone()")
    others["jdbc"].close()
    others["connect"].stop()

    seen["logins"] = {
        "wrong password": error(lambda: place.jdbc("wrong")),
        "nobody": error(lambda: place.jdbc(user="nobody")),
        "no password": error(lambda: place.jdbc("")),
        "no token": error(lambda: collected(place.connect(""), "SELECT 1")),
        "wrong token": error(lambda: collected(place.connect("x" * 20), "SELECT 1")),
    }
    seen["secrets"] = [error(lambda: ask(f"SET {key}")) for ask in doors.values() for key in SECRETS]  # noqa: B023

    cursor = jdbc.cursor()
    cursor.execute(SLEEP.format(rows=600), async_=True)
    waiting = threading.Timer(2, lambda: (cursor.cancel(), spark.interruptAll()))
    waiting.start()
    began = time.monotonic()
    seen["cancelled"] = error(lambda: collected(spark, SLEEP.format(rows=600)))
    waiting.join()
    seen["cancelled after"] = time.monotonic() - began
    seen["cancelled over jdbc"] = cursor.poll().operationState
    for door, ask in doors.items():
        seen[f"{door} after cancel"] = ask("SELECT 2")

    before = spark.version < "4.1"  # Connect has no functions with state there, and SQL no STREAM
    seen["watched"] = None if before or not place.found["watched"] else watched(spark, place.found["folder"])
    spark.sql("SELECT 1 AS k, current_timestamp() AS ts").write.mode("overwrite").parquet(f"{place.found['folder']}/stream")
    stream = spark.readStream.schema("k INT, ts TIMESTAMP").parquet(f"{place.found['folder']}/stream").writeStream.format("noop")
    stream.option("checkpointLocation", f"{place.found['folder']}/checkpoint").start()
    ends: dict[str, Any] = {}

    def run(name: str, rows: int, ask: Callable[[str], Any]) -> threading.Thread:
        def ran() -> None:
            try:
                ends[name] = ask(SLEEP.format(rows=rows))
            except Exception as failed:
                ends[name] = f"{type(failed).__name__}: {failed}"

        thread = threading.Thread(target=ran)
        thread.start()
        return thread

    long, more = place.connect(), place.jdbc()
    threads = [
        run("short", 30, doors["connect"]),
        run("long", 3000, lambda text: collected(long, text)),
        run("long over jdbc", 3000, lambda text: asked(more, text)),
    ]
    time.sleep(1.5)
    say(channel, "running")
    sys.stdin.readline()  # the server was told to stop
    new = place.connect()
    seen["new statement"] = error(lambda: collected(new, "SELECT 3"))
    seen["new login"] = error(place.jdbc)
    for thread in threads:
        thread.join(60)
    return seen | {"ends": ends}


def watched(spark: Any, folder: str) -> dict[str, Any]:
    """What `streamtime.watch` in the client hears of two queries, of which one fails."""
    import streamtime

    said: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("streamtime.streams")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    stream = CALL.replace("TABLE(shop.clicks)", "TABLE(SELECT * FROM STREAM shop.clicks)").replace(
        "10 SECONDS", "10 SECONDS, watermark => INTERVAL 1 SECOND"
    )
    with streamtime.watch(spark, "shop.metrics", every=600) as watch:
        for name, text in {"once": f"SELECT * FROM {stream}", "fails": "SELECT assert_true(k < 0, 'thud') FROM STREAM shop.clicks"}.items():
            writer = spark.sql(text).writeStream.queryName(name).format("noop").option("checkpointLocation", f"{folder}/{name}")
            with contextlib.suppress(Exception):
                writer.trigger(availableNow=True).start().awaitTermination()
        watch.flush()
        lost = watch.lost
    logger.removeHandler(handler)
    events = [
        list(row)
        for row in spark.sql("SELECT query, event, error FROM shop.metrics WHERE event <> 'progress' ORDER BY at, event DESC").collect()
    ]
    counts = "SELECT call, sum(rows), sum(dropped['duplicate']) FROM shop.metrics LATERAL VIEW inline(calls) calls GROUP BY call"
    return {"events": events, "calls": [list(row) for row in spark.sql(counts).collect()], "said": said, "lost": lost}


def main(channel: str, path: str) -> None:
    say(channel, json.dumps(everything(Place(path), channel)))


if __name__ == "__main__":
    main(*sys.argv[1:])

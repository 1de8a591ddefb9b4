"""A Spark Connect client in a process of its own: answers the texts in a pickle through streamtime.query, and looks at itself."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import pickle
import re
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

EVENTS = (
    "CREATE OR REPLACE TEMP VIEW events AS SELECT k, timestamp_seconds(s) AS ts, v FROM VALUES (1, 0, 'a'), (1, 5, 'b'), (1, 20, 'c'), (2, 3, 'd')"
    " AS e(k, s, v)"
)
CALL = "DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 10 SECONDS)"


def answer(run: Callable[[str], Any], text: str) -> tuple[str, list[str]]:
    """The schema and the rows in any order; or the kind of an error and what it says, without Spark's plans and stack traces."""
    try:
        df = run(text)
        return df.schema.simpleString(), sorted(repr(tuple(row)) for row in df.collect())
    except (PySparkException, ValueError) as error:
        said = re.split(r"(?<=pos \d);|(?<=pos \d\d);|(?<=pos \d\d\d);|;\n|\n\nJVM stacktrace", str(error))[0]
        return type(error).__name__, [re.sub(r"#[0-9]+", "#N", said).strip()]


class RoundTrips(Counter[str]):
    """Counts what goes to the server."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        client = spark.client  # type: ignore[attr-defined]
        for name in ("_analyze", "_execute_and_fetch_as_iterator"):
            setattr(client, name, self._counted(getattr(client, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self["trips"] += 1
            return method(*args, **kwargs)

        return counted

    def of(self, work: Callable[[], Any]) -> int:
        before = self["trips"]
        work()
        return self["trips"] - before


def look(spark: SparkSession) -> dict[str, Any]:
    """What cannot be asked in texts."""
    import streamtime
    from streamtime.pictures.plotting import sketched

    seen: dict[str, Any] = {"pages": pages(spark)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        registration = streamtime.register(spark)
    seen["workers that have all"] = [str(w.message) for w in caught if "streamtime" in str(w.message)]
    streamtime.unregister(spark)
    if "server" not in registration.doors:
        seen["workers that lack"] = lacking(spark)
    seen["doors"], seen["registration"] = registration.doors, str(registration)
    spark.sql(EVENTS)
    trips = RoundTrips(spark)
    seen["trips"] = {
        "plain": trips.of(lambda: streamtime.query(spark, f"SELECT * FROM {CALL}")),
        "no call": trips.of(lambda: streamtime.query(spark, "SELECT * FROM events")),
        "constant": trips.of(lambda: streamtime.query(spark, f"SELECT * FROM {CALL.replace('SECONDS', 'SECONDS * 1')}")),
        "computed key": trips.of(lambda: streamtime.query(spark, f"SELECT * FROM {CALL.replace('BY k', 'BY k % 2')}")),
    }
    events = spark.table("events")
    within = timedelta(seconds=10)
    many = spark.range(1_000_000).selectExpr("id % 7 AS k", "timestamp_seconds(id) AS ts")
    seen["plan"] = streamtime.deduplicate(many, keys=["k"], order_by=["ts"], within=within)._explain_string()  # type: ignore[operator]
    seen["python"] = {
        output: answer(lambda _: streamtime.deduplicate(events, keys=["k"], order_by=["ts"], within=within, output=output), "")  # noqa: B023
        for output in ("rows", "dropped", "all", "metrics")
    }
    seen["windows"] = answer(lambda _: streamtime.distinct_in_window(events, keys=["k"], order_by=["ts"], size=within), "")
    for wrong in ({"keys": ["nope"]}, {"keys": ["k +"]}, {"keys": ["sum(k)"]}):
        try:
            streamtime.deduplicate(events, order_by=["ts"], **wrong)
        except streamtime.CallError as error:
            seen[str(wrong)] = str(error)
    result = streamtime.query(spark, f"SELECT * FROM {CALL}")
    derived = result.where("k = 1").join(result.select("v"), "v")
    del result
    gc.collect()
    seen["derived"] = derived.count()
    seen["views"] = [r.viewName for r in spark.sql("SHOW VIEWS").collect()]
    seen["parameters"] = answer(
        lambda text: streamtime.query(spark, text, {"k": 1, "w": within}),
        "SELECT v FROM DEDUPLICATE(TABLE(SELECT * FROM events WHERE k = :k) PARTITION BY k ORDER BY ts, within => :w) WHERE k = :k",
    )
    seen["cells"] = cells(spark)
    seen["picture"] = sketched(spark, f"SELECT * FROM {CALL}", 60).lines
    seen["in the server"] = answer(spark.sql, f"SELECT v FROM {CALL}")
    seen["stream"] = streamed(spark)
    seen["udtf doors"] = streamtime.register(spark, door="udtf").doors
    as_options = CALL.replace(" PARTITION BY k ORDER BY ts", ", keys => ARRAY('k'), order_by => ARRAY('ts')")
    seen["udtf"] = answer(spark.sql, f"SELECT v FROM {as_options}")
    streamtime.unregister(spark)
    seen["udtf gone"] = answer(spark.sql, f"SELECT v FROM {as_options}")
    return seen


def cells(spark: SparkSession) -> list[str]:
    """What stands below cells of a notebook whose session this is."""
    from notebook import Notebook

    notebook = Notebook(spark=spark, k=1)
    notebook.run("%load_ext streamtime")
    try:
        return [
            notebook.shown(cell)
            for cell in (
                f"%sql SELECT v FROM {CALL} ORDER BY v",
                f"%%sql\nCREATE OR REPLACE TEMP VIEW once AS SELECT * FROM {CALL};\nSELECT v FROM once WHERE k = :k ORDER BY v",
                f"%%sql mine <<\nSELECT * FROM {CALL}",
                "mine.count()",
                f"%sql SELECT v FROM {CALL.replace('within', 'withn')}",
            )
        ]
    finally:
        notebook.close()
        spark.sql("DROP VIEW IF EXISTS once")


def pages(spark: SparkSession) -> list[str]:
    """What the pages' Python for a Connect server puts out, each block as it is written; the address is this server's."""
    import streamtime

    said = []
    for name in ("doors.md", "install.md"):
        page = (Path(__file__).parents[3] / "docs" / name).read_text()
        (text,) = re.findall(r"<!-- not run: \S+/test_query.py runs it -->\n```python\n(.*?)```", page, re.DOTALL)
        names: dict[str, Any] = {"SparkSession": SparkSession, "streamtime": streamtime}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(text.replace("sc://localhost:15002", f"sc://{spark.client._builder.endpoint}"), names)  # type: ignore[attr-defined]
        said.append(out.getvalue())
    return said


def lacking(spark: SparkSession) -> list[str]:
    """What registering says where the server's workers lack something, cannot be asked, or do not answer."""
    import streamtime
    from streamtime import workers

    said: list[str] = []
    probe = workers.PROBE
    for other in (probe.replace("'numpy'", "'numpy_of_the_moon'"), "1 / 0", "__import__('time').sleep(3600)"):
        workers.PROBE = other
        workers._asked_servers.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if "sleep" in other:
                workers.ask_server(spark, patience=1)
            else:
                streamtime.register(spark)
                streamtime.register(spark)  # which does not ask again
        said += [str(w.message) for w in caught if w.category is RuntimeWarning]
    workers.PROBE = probe
    return [*said, *map(str, spark.getTags()), *(t.name for t in threading.enumerate() if t.name == workers.TAG)]


def streamed(spark: SparkSession) -> list[tuple[Any, ...]]:
    """A call over a stream, from its first error to its rows."""
    import streamtime

    call = f"SELECT v, reason FROM {CALL.replace('events', 'ticks').replace('SECONDS)', 'SECONDS, output => ' + repr('all') + ')')}"
    with tempfile.TemporaryDirectory() as folder:
        spark.table("events").write.parquet(f"{folder}/in")
        spark.readStream.schema("k INT, ts TIMESTAMP, v STRING").parquet(f"{folder}/in").createOrReplaceTempView("ticks")
        found: list[tuple[Any, ...]] = []
        try:
            streamtime.query(spark, call)
        except PySparkException as error:
            store = "spark.sql.streaming.stateStore.providerClass"
            spark.conf.set(store, str(error).split(f"{store} = ")[1].split(" ")[0])  # what the error says
        if spark.version < "4.1":
            return [answer(lambda text: streamtime.query(spark, text), call)]
        writer = streamtime.query(spark, call).writeStream.format("memory").queryName("streamed")
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
        found += [tuple(row) for row in spark.table("streamed").collect()]
    return sorted(found)


def main(port: str, asked: str, answered: str) -> None:
    import streamtime

    logging.disable(logging.CRITICAL)  # PySpark logs every refusal
    spark: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    another: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        found = {text: answer(lambda t: streamtime.query(spark, t), text) for text in pickle.loads(Path(asked).read_bytes())}
        Path(answered).write_bytes(pickle.dumps((found, look(another))))
    finally:
        # one that is left to the end of the interpreter may wait there for ever, for threads that are gone
        for session in (another, spark):
            session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

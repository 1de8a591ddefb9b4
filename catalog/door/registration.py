"""register() and unregister(): the one verb that puts the functions into Spark SQL, and the one that takes them out."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from typing import cast

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf as make_udtf
from pyspark.sql.udtf import UserDefinedTableFunction

from streamtime import workers
from streamtime.describe import describe
from streamtime.door.analyzer import AnalyzerDoor
from streamtime.door.callbacks import guard
from streamtime.door.parser import ParserDoor
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.errors import unlogged
from streamtime.sql.call.remote import is_remote
from streamtime.sql.rows import kernels
from streamtime.sql.udtf import handler

_doors: dict[int, tuple[AnalyzerDoor, ParserDoor]] = {}  # one of each per Spark application, by the identity of its gateway

_with_udtfs: weakref.WeakSet[SparkSession] = weakref.WeakSet()


@dataclass(frozen=True)
class Registration:
    """What register() did. `doors` are the ways to the functions that are open to the session:

    'analyzer': `spark.sql`, by its own driver; 'server': `spark.sql`, by the Connect server, where the pack is registered;
    'query': `streamtime.query`; 'python': `streamtime.deduplicate(df, ..)` and the like; 'udtf': `spark.sql`, as Python UDTFs.
    """

    functions: tuple[str, ...]
    spark: str
    already: bool
    doors: tuple[str, ...] = ("analyzer", "query", "python")
    workers: str = ""  # what was done about the Python of Spark's workers

    def __str__(self) -> str:
        """One line for people."""
        state = "were registered already" if self.already else "are registered for this and every later session of this driver"
        help_ = "Help: SELECT * FROM FUNCTION_CATALOG()"
        if "udtf" in self.doors:
            state = "are registered as Python UDTFs in this session"
            help_ = "Give keys => ARRAY('k') and order_by => ARRAY('ts') as options; they are slow: see docs/udtf.md"
        elif "server" in self.doors:
            state = "are registered in this session's server"
        elif "analyzer" not in self.doors:
            state = "are not registered in this session's server"
            help_ = 'Use streamtime.query(spark, "SELECT ..") in place of spark.sql, or register in the process of the server'
        said = f"{self.workers} " if self.workers else ""
        return f"streamtime: {', '.join(self.functions)} {state} (Spark {self.spark}). Doors: {', '.join(self.doors)}. {said}{help_}"

    __repr__ = __str__


def register(spark: SparkSession, door: str | None = None) -> Registration:
    """Make the functions callable in `spark.sql`, in views, over JDBC: everywhere that Spark's analyzer works.

    For the session at hand and every session opened later in this driver. Calling it again changes nothing. No Spark setting is changed;
    but where nothing says which Python Spark's workers run, on a local master they run this process's from now on, and a line says so.
    A Spark Connect client cannot register anything in its server; for its session, this says which doors to the functions are open, and
    warns where the Python of the server's workers lacks NumPy or PyArrow.

    With `door='udtf'` they become Python UDTFs of this one session, of whatever kind: many times slower, batch only, without views that
    last, keys and order given as options (docs/udtf.md). For sessions in which nothing else works.

    Raises:
        ValueError: no such door.
        UnsupportedSparkError: this Spark is not one that the pack knows.
        TypeError: not a Spark session.
    """
    if door not in (None, "udtf"):
        raise ValueError(f"streamtime.register: expected door='udtf', or none for the best there is, got {door!r}")
    if door == "udtf":
        return _register_udtfs(spark)
    names = tuple(s.name for s in FUNCTIONS)
    if is_remote(spark):
        known = all(_server_has(spark, n) for n in names)
        if not known:  # a server that has them asked its workers itself
            workers.ask_server(spark)
        return Registration(names, spark.version, known, ("server", "query", "python") if known else ("query", "python"))
    if not isinstance(spark, SparkSession):
        raise TypeError(f"streamtime.register: expected a Spark session, got {type(spark).__module__}.{type(spark).__name__}.")
    doors = _doors.get(id(spark.sparkContext._gateway))
    already = doors is not None and all(doors[0].has(spark, n) for n in names) and doors[1].has(spark)
    guard(spark.sparkContext._gateway)
    said = workers.settle(spark.sparkContext)
    if not already:
        opened = doors is None
        if doors is None:
            doors = _opened(AnalyzerDoor(spark))
        try:
            doors[0].join(spark, [(s, describe(s)) for s in FUNCTIONS])
            doors[1].join(spark)
            _self_test(spark)
        except BaseException:
            if opened:  # else other sessions have them
                _close(doors, spark)
            raise
        _doors[id(spark.sparkContext._gateway)] = doors
    return Registration(names, spark.version, already, workers=said)


def _register_udtfs(spark: SparkSession) -> Registration:
    if is_remote(spark):
        workers.ask_server(spark)
        said = ""
    else:
        said = workers.settle(spark.sparkContext)
    kernels.ship_by_value()
    specs = [s for s in FUNCTIONS if s.local is not None]
    for name in [m for m in sys.modules if m.startswith("streamtime.sql.")]:
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    for one in specs:
        # rows one by one are 3 times faster than Arrow here, since every group of rows would pay for a batch of its own
        spark.udtf.register(one.name, cast(UserDefinedTableFunction, make_udtf(handler.handler(one), useArrow=False)))
    _with_udtfs.add(spark)
    return Registration(tuple(s.name for s in specs), spark.version, already=False, doors=("udtf", "query", "python"), workers=said)


def unregister(spark: SparkSession) -> None:
    """Take the functions out again: of this session, of every later one, and in effect of those opened in between.

    A session that was opened in between still lists them; a call there says that the pack was unregistered. For a Spark Connect client
    there is nothing to take out: what its server has is for the server's own process to unregister.
    """
    if spark in _with_udtfs:
        _with_udtfs.discard(spark)
        for spec in FUNCTIONS:
            if spec.local is not None:
                spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {spec.name}")
    if is_remote(spark):
        return
    doors = _doors.pop(id(spark.sparkContext._gateway), None)
    if doors is not None:
        _close(doors, spark)


def _opened(analyzer: AnalyzerDoor) -> tuple[AnalyzerDoor, ParserDoor]:
    try:
        return analyzer, ParserDoor(analyzer)
    except BaseException:
        analyzer.close()
        raise


def _close(doors: tuple[AnalyzerDoor, ParserDoor], spark: SparkSession) -> None:
    analyzer, parser = doors
    parser.close(spark)
    analyzer.spark = spark
    analyzer.close()


def _server_has(spark: SparkSession, name: str) -> bool:
    try:
        with unlogged():
            described = spark.sql(f"DESCRIBE FUNCTION {name}").collect()
    except AnalysisException:
        return False
    return any(row[0] == f"Class: streamtime.{name}" for row in described)


def _self_test(spark: SparkSession) -> None:
    """Analyse one call (no job runs), so that a Spark whose internals differ says so now and not in the middle of somebody's work."""
    call = "DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts) PARTITION BY k ORDER BY ts, within => INTERVAL 1 DAY)"
    try:
        columns = spark.sql(f"SELECT * FROM {call}").columns
    except Exception as error:
        raise RuntimeError(f"streamtime does not work on this Spark ({spark.version}): {error}") from error
    if columns != ["k", "ts"]:
        raise RuntimeError(f"streamtime does not work on this Spark ({spark.version}): a call gave the columns {columns}")

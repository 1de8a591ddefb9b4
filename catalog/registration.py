"""register() and unregister(): the one verb that puts the functions into Spark SQL, and the one that takes them out."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from streamtime.analyzer import AnalyzerDoor
from streamtime.describe import describe
from streamtime.shelf import FUNCTIONS

_doors: dict[int, AnalyzerDoor] = {}  # one per Spark application, by the identity of its gateway


@dataclass(frozen=True)
class Registration:
    """What register() did."""

    functions: tuple[str, ...]
    spark: str
    already: bool

    def __str__(self) -> str:
        """One line for people."""
        state = "were registered already" if self.already else "are registered for this and every later session of this driver"
        return f"streamtime: {', '.join(self.functions)} {state} (Spark {self.spark}). Help: SELECT * FROM FUNCTION_CATALOG()"

    __repr__ = __str__


def register(spark: SparkSession) -> Registration:
    """Make the functions callable in `spark.sql`, in views, over JDBC: everywhere that Spark's analyzer works.

    For the session at hand and every session opened later in this driver. Calling it again changes nothing. No Spark setting is changed.

    Raises:
        UnsupportedSparkError: this Spark is not one that the pack knows.
        TypeError: the session has no JVM at hand (a Spark Connect client): register in the server's process.
    """
    if not isinstance(spark, SparkSession):
        raise TypeError(
            f"streamtime.register: expected a Spark session with a JVM, got {type(spark).__module__}.{type(spark).__name__}. "
            "For Spark Connect, call register in the server's driver process; clients then have the functions."
        )
    names = tuple(s.name for s in FUNCTIONS)
    door = _doors.get(id(spark.sparkContext._gateway))
    already = door is not None and all(door.has(spark, n) for n in names)
    if not already:
        if door is None:
            door = AnalyzerDoor(spark)
        try:
            door.join(spark, [(s, describe(s)) for s in FUNCTIONS])
            _self_test(spark)
        except BaseException:
            door.close()
            raise
        _doors[id(spark.sparkContext._gateway)] = door
    return Registration(names, spark.version, already)


def unregister(spark: SparkSession) -> None:
    """Take the functions out again: of this session, of every later one, and in effect of those opened in between.

    A session that was opened in between still lists them; a call there says that the pack was unregistered.
    """
    door = _doors.pop(id(spark.sparkContext._gateway), None)
    if door is not None:
        door.spark = spark
        door.close()


def _self_test(spark: SparkSession) -> None:
    """Analyse one call (no job runs), so that a Spark whose internals differ says so now and not in the middle of somebody's work."""
    call = "DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts) PARTITION BY k ORDER BY ts, within => INTERVAL 1 DAY)"
    try:
        columns = spark.sql(f"SELECT * FROM {call}").columns
    except Exception as error:
        raise RuntimeError(f"streamtime does not work on this Spark ({spark.version}): {error}") from error
    if columns != ["k", "ts"]:
        raise RuntimeError(f"streamtime does not work on this Spark ({spark.version}): a call gave the columns {columns}")

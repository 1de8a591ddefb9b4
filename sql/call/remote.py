"""Sessions of Spark Connect: what they are, and what their client needs."""

from __future__ import annotations

import functools
import importlib
import logging

DEEP = "google._upb._message"  # protobuf in C, which PySpark's clients have; the one in Python copies what is deep
LOG = logging.getLogger("streamtime")


def is_remote(spark: object) -> bool:
    """Whether it is a session of Spark Connect."""
    return any(c.__module__.startswith("pyspark.sql.connect.") for c in type(spark).__mro__)


def refuse_remote(name: str, spark: object) -> None:
    """Of what writes, and has settings of its own for that: raises TypeError in a session of Spark Connect."""
    if is_remote(spark):
        raise TypeError(f"{name}: expected a session of this process, got one of Spark Connect: it writes with settings of its own.")


@functools.cache
def let_plans_be_deep() -> None:
    """Let this process send deep plans.

    A plan is a message in which each operator holds the one below, two messages each. Before it is sent it is copied, and protobuf refuses
    to copy more than 100 within each other ("Error parsing message"): a call or two, one over another, come to that. Now it is 65,535. A
    server takes ten times as many as 100 (`spark.connect.grpc.marshallerRecursionLimit`).
    """
    try:
        importlib.import_module(DEEP).SetAllowOversizeProtos(True)
    except (ImportError, AttributeError):
        LOG.info("streamtime: this protobuf is not known; of calls over calls it may say: Error parsing message")

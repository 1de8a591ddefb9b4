"""The minors of Spark that the pack runs on, and what differs between them: one row each, so that nothing else asks for a version.

One difference is not here: Spark 4.0 has no Arrow functions, which `streamtime.sql.rows.kernels` sees for itself.
"""

from __future__ import annotations

from dataclasses import dataclass


class UnsupportedSparkError(RuntimeError):
    """This Spark is not one that the pack knows."""


@dataclass(frozen=True)
class SparkVersion:
    """A minor of Spark. The defaults are what is true of the reference, Spark 4.2."""

    minor: str
    full_function_names: bool = True  # built-in functions are registered under names with a catalog and a schema
    recursion_limits: bool = True  # the nodes of a CTE carry limits for recursion
    python_sockets: bool = True  # a Unix domain socket may connect a task with its Python worker
    errors_end: bool = False  # an error of the parser says where its place ends, too
    early_parameters: bool = True  # the parser binds `:name` parameters, so that a parser which wraps it has to pass them on


SPARKS = (
    SparkVersion("4.0", full_function_names=False, recursion_limits=False, python_sockets=False, errors_end=True, early_parameters=False),
    SparkVersion("4.1", full_function_names=False),
    SparkVersion("4.2"),
)


def spark_version(version: str) -> SparkVersion:
    """The row of a Spark such as "4.1.4". Raises UnsupportedSparkError."""
    minor = ".".join(version.split(".")[:2])
    for known in SPARKS:
        if known.minor == minor:
            return known
    raise UnsupportedSparkError(
        f"streamtime calls Spark's analyzer, and knows how in Spark {', '.join(k.minor for k in SPARKS)}; this session runs Spark "
        f"{version}. Install pyspark=={SPARKS[-1].minor}.0."
    )


def knows_asof_join(version: str) -> bool:
    """Whether that Spark, perhaps the server of a client, has ASOF JOIN itself."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) >= (4, 3)

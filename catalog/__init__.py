"""streamtime: stream-processing semantics as SQL table functions for Spark.

    import streamtime
    spark = streamtime.session()          # or your own session, and streamtime.register(spark)
    spark.sql("SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)")

Over Spark Connect, `streamtime.query(spark, text)` takes the place of `spark.sql(text)`. Where nothing of this pack can run, neither driver
nor server, `streamtime.compile(spark, text)` gives the text as plain Spark SQL.
The same functions over DataFrames: `streamtime.deduplicate(df, keys=["user_id"], order_by=["ts"], within=timedelta(minutes=10))`.
"""

from typing import Any

from streamtime import api
from streamtime.api import *  # noqa: F403 - one for each function
from streamtime.door.registration import Registration, register, unregister
from streamtime.maintained.maintaining import maintain, receipts
from streamtime.maintained.receipt import Receipt
from streamtime.monitoring.watching import Watch, watch
from streamtime.pictures.plotting import plot
from streamtime.plain.compiling import compile  # noqa: A004 - as there
from streamtime.session import session
from streamtime.sparks import UnsupportedSparkError
from streamtime.sql.call.errors import CallError
from streamtime.statements.query import query
from streamtime.store.applying import ApplyReport, apply_changes, changes_writer
from streamtime.store.puts import Report
from streamtime.store.table import VersionedTable
from streamtime.version import VERSION

__version__ = VERSION

__all__ = [
    "ApplyReport",
    "CallError",
    "Receipt",
    "Registration",
    "Report",
    "UnsupportedSparkError",
    "VersionedTable",
    "Watch",
    "apply_changes",
    "changes_writer",
    "compile",
    "maintain",
    "plot",
    "query",
    "receipts",
    "register",
    "session",
    "unregister",
    "watch",
]
__all__ += api.__all__


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext streamtime`: `%sql` and `%%sql` in a notebook."""
    from streamtime.notebook.magic import load

    load(shell)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]

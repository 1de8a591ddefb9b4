"""Spark's daemon of Python workers, which has imported what they need before it forks them.

As Spark has it, each worker imports it anew: a second of CPU for each, and a lane of tests has dozens. Tests with a process of their own have
Spark as it is.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

NEEDED = (
    "numpy",
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.worker.analyze_udtf",
)

if __name__ == "__main__":
    for name in NEEDED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    manager()

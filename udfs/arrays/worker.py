"""What a kernel does for the worker that it runs in."""

from __future__ import annotations

import gc
import os


def spare_the_collector() -> None:
    """What a worker of Spark's has loaded by now is no garbage: Spark looks through it all behind each task, for 40 ms of a core.

    Done once in a worker that serves one task after the other; what is loaded later is still looked through.
    """
    if "SPARK_REUSE_WORKER" in os.environ and not gc.get_freeze_count():
        gc.freeze()

"""What a kernel does for the worker that it runs in."""

from __future__ import annotations

import gc
import io
import os
import pickle
import sys
from types import ModuleType
from typing import Any


def spare_the_collector() -> None:
    """What a worker of Spark's has loaded by now is no garbage: Spark looks through it all behind each task, for 40 ms of a core.

    Done once in a worker that serves one task after the other; what is loaded later is still looked through.
    """
    if "SPARK_REUSE_WORKER" in os.environ and not gc.get_freeze_count():
        gc.freeze()


def opened(code: bytes, what: bytes) -> Any:
    """What `streamtime.sql.rows.kernels` has pickled in two parts; a worker that has read this code before keeps it."""
    name = "streamtime_on_a_worker"
    library = vars(sys.modules.setdefault(name, ModuleType(name))).setdefault("library", {})
    if code not in library:
        library[code] = pickle.loads(code)

    class Reader(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return library[code][place]

    return Reader(io.BytesIO(what)).load()

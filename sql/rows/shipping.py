"""How what runs on workers gets there: with each query, since workers need no package of ours.

Code is pickled by value, which takes longer than a small query, so it is done once for the same classes and functions; what a call says,
its kernel's fields, is pickled with each. A worker reads the same code once, too.
"""

from __future__ import annotations

import functools
import importlib
import io
import pkgutil
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

from streamtime.udfs.arrays.worker import opened

Given = TypeVar("Given")
Made = TypeVar("Made")


class Shipped(Generic[Given, Made]):
    """A function that workers call; there it is the function itself."""

    def __init__(self, function: Callable[[Given], Made]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "function")  # Spark's plans show it

    def __call__(self, given: Given) -> Made:
        """Here, as on a worker."""
        return self.function(given)

    def __reduce__(self) -> tuple[Callable[[bytes, bytes], Any], tuple[bytes, bytes]]:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(self.function)  # type: ignore[no-untyped-call]
        return opened, (_code(tuple(pickler.named)), file.getvalue())


class _Pickler(cloudpickle.Pickler):
    """Of the classes and functions that travel by value it writes down only the place among all that it named."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.named: dict[type | FunctionType, int] = {}

    def persistent_id(self, one: object) -> int | None:
        """None where it is to be pickled as it is."""
        if not isinstance(one, type | FunctionType) or one.__module__ not in _by_value or _in_its_module(one) is not one:
            return None
        return self.named.setdefault(one, len(self.named))


def _in_its_module(one: type | FunctionType) -> object:
    """What has its name there: it is something else where it was made by a call."""
    at: object = sys.modules[one.__module__]
    for name in one.__qualname__.split("."):
        at = getattr(at, name, None)
    return at


@functools.lru_cache(maxsize=256)
def _code(named: tuple[type | FunctionType, ...]) -> bytes:
    return bytes(cloudpickle.dumps(named))  # type: ignore[no-untyped-call]


_by_value: set[str] = set()  # the names of modules


def by_value(module: ModuleType) -> None:
    """Send what is in this module with each query from now on."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    _by_value.add(module.__name__)


@functools.cache
def ship_by_value(*others: ModuleType) -> None:
    """Send the kernels, and other modules that run on workers, with each query from now on."""
    import streamtime.udfs

    for module in pkgutil.walk_packages(streamtime.udfs.__path__, "streamtime.udfs."):
        by_value(importlib.import_module(module.name))
    for other in others:
        by_value(other)

"""What runs on workers travels in two parts: its code, the same for all calls of a function, and what a call says."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from types import FunctionType

import pyarrow as pa
from pyspark import cloudpickle
from support.bare import said_without_the_pack

import streamtime.udfs
from streamtime.sql.rows import kernels
from streamtime.udfs.arrays.beside import Beside
from streamtime.udfs.arrays.blobs import Named
from streamtime.udfs.deduplicate import Deduplicate
from streamtime.udfs.sessions.rules import FirstInSession

kernels.ship_by_value()
KERNELS = [*(Deduplicate(within=within) for within in (10, 20)), FirstInSession(gap=10, grace=0)]


def shipped() -> list[bytes]:
    return [cloudpickle.dumps(kernels.Shipped(kernel.run)) for kernel in KERNELS]


def test_the_code_of_kernels_is_pickled_once_whatever_their_calls_say() -> None:
    shipped()
    before = kernels._code.cache_info()
    shipped()
    after = kernels._code.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + len(KERNELS))
    parts = [kernels.Shipped(kernel.run).__reduce__()[1] for kernel in KERNELS]
    assert parts[0][0] == parts[1][0] != parts[2][0]
    assert all(len(said) < 1_000 < len(code) for code, said in parts)


def test_a_worker_that_has_not_the_pack_reads_each_code_once_and_what_each_call_says() -> None:
    script = (
        "runs = [pickle.loads(one) for one in given for _ in range(2)]\n"
        "print([getattr(run.__self__, 'within', None) for run in runs], end=' ')\n"
        "print(len({type(run.__self__) for run in runs}), len(sys.modules['streamtime_on_a_worker'].library))\n"
    )
    assert said_without_the_pack(script, shipped()) == "[10, 10, 20, 20, None, None] 2 2\n"


def test_kernels_within_kernels_are_found_and_other_functions_travel_as_they_are() -> None:
    beside = Named(Beside(KERNELS[0], "kept", 1).run, ("c0",))
    code, said = kernels.Shipped(beside.run).__reduce__()[1]
    assert len(said) < 1_000 < len(code)
    (doubled,) = [pickle.loads(cloudpickle.dumps(kernels.Shipped(lambda batch: pa.array([v * 2 for v in batch.to_pylist()]))))]
    assert doubled(pa.array([1, 2])).to_pylist() == [2, 4]


def test_all_of_the_kernels_code_can_be_read_where_the_pack_is_not() -> None:
    """Wherever its file lies: what is not sent by value would be looked for in the pack."""
    home = Path(streamtime.udfs.__path__[0])
    names = [".".join(("streamtime.udfs", *path.relative_to(home).with_suffix("").parts)) for path in sorted(home.rglob("*.py"))]
    modules = [importlib.import_module(name.removesuffix(".__init__")) for name in names]
    code = [one for m in modules for one in vars(m).values() if isinstance(one, type | FunctionType) and one.__module__ == m.__name__]
    assert len(modules) > 30
    assert len(code) > 200
    assert said_without_the_pack("print(len(pickle.loads(given)))", cloudpickle.dumps(code)) == f"{len(code)}\n"

"""Keys as two numbers each, by which a kernel tells them apart: nobody can choose keys so that two of them become equal.

A key of one or two columns of integers, times or booleans is its own two numbers. Any other is added up with secret factors, word by word
of 32 bits (multilinear hashing): two keys, chosen by whoever does not know the secret, become equal with a probability of 2**-128. Text
and the like come as digests of 256 bits (`streamtime.sql.rows.keys`). A faster hash with a secret seed would not do: for xxHash64 there are
strings that are equal under every seed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtime.udfs.arrays.groups import Ints, as_ints, valid

Words = npt.NDArray[np.uint64]
DIGEST = 32  # bytes
NUMBERS = 4  # of 32 bits, which make the two of 64


def new_secret() -> str:
    """A secret, as text."""
    return secrets.token_hex(16)


def halves(keys: Sequence[pa.Array], length: int, secret: str) -> tuple[Ints, Ints]:
    """Two numbers for each key; `keys` are its columns, each of integers, times, booleans or digests. They hold where the secret is the
    same.
    """
    hashed = np.full(length, len(keys) > 2 or any(_is_digest(k) for k in keys))
    for key in keys:
        if key.null_count:
            hashed |= ~valid([key], length)
    if hashed.all():
        return _added_up(keys, length, secret)
    values = [_bits(key) for key in keys] or [np.zeros(length, np.uint64)]
    first, second = _mixed(values[0]), values[-1]
    if len(values) > 1:
        first = _mixed(first + second)
    if hashed.any():
        rows = pa.array(np.flatnonzero(hashed))
        first, second = first.copy(), second.copy()
        some = _added_up([key.take(rows) for key in keys], len(rows), secret)
        first[hashed], second[hashed] = (half.view(np.uint64) for half in some)
    return first.view(np.int64), second.view(np.int64)


def _added_up(keys: Sequence[pa.Array], length: int, secret: str) -> tuple[Ints, Ints]:
    missing, words = list[Words](), list[Words]()
    for key in keys:
        present = valid([key], length)
        missing.append((~present).astype(np.uint64))
        words += [np.where(present, word, 0).astype(np.uint64) for word in _words(key)]
    table = np.stack([*missing, *words], axis=1) if words else np.zeros((length, 0), np.uint64)
    factors = np.frombuffer(hashlib.shake_256(secret.encode()).digest(8 * NUMBERS * (table.shape[1] + 1)), "<u8").reshape(-1, NUMBERS)
    sums = (table @ factors[1:] + factors[0]) >> np.uint64(32)
    first, second = (sums[:, i] << np.uint64(32) | sums[:, i + 1] for i in (0, 2))
    return first.view(np.int64), second.view(np.int64)


def _words(key: pa.Array) -> list[Words]:
    """A column as words of 32 bits."""
    if _is_digest(key):
        fixed = key.fill_null(bytes(DIGEST)).cast(pa.binary(DIGEST))
        table = np.frombuffer(fixed.buffers()[1], "<u4", len(fixed) * DIGEST // 4, fixed.offset * DIGEST).reshape(len(fixed), -1)
        return list(table.T)
    bits = _bits(key)
    return [bits & np.uint64(2**32 - 1), bits >> np.uint64(32)]


def _is_digest(key: pa.Array) -> bool:
    return bool(pa.types.is_binary(key.type) or pa.types.is_large_binary(key.type))


def _bits(column: pa.Array) -> Words:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    bits: Words = as_ints(column).astype(np.int64).view(np.uint64)
    return bits


def _mixed(values: Words) -> Words:
    """Each number as another one (Stafford's mix 13), of which all bits depend on all bits."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)

"""The partitions of rows: those they name, or by the hash of their keys, for a whole column."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.client.errors import UnknownTopicError
from moldau.client.producer.murmur import partition_for_key

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_LONG: Final = 256
"""Keys with more bytes are hashed one by one: a step over the column does four bytes of each."""

NOWHERE: Final = -1
"""The partition of a row that names none and has no key."""

Partitions = npt.NDArray[np.int32]


def named_partitions(topic: str, partitions: int, column: pa.Array) -> Partitions:
    """What the column says, which must be there."""
    found: Partitions = column.fill_null(NOWHERE).to_numpy().astype(np.int32)
    there = (found >= 0) & (found < partitions)
    wrong = ~there & column.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        raise UnknownTopicError(topic, int(found[wrong][0]))
    return found


def partitions_of_keys(keys: pa.Array, partitions: int) -> Partitions:
    """murmur2(key) mod partitions; the column has no nulls."""
    keys = keys.cast(pa.binary())
    _, places, data = keys.buffers()
    count = len(keys)
    if count == 0:
        return np.empty(0, np.int32)
    bounds = np.frombuffer(places, np.int32, count + 1, keys.offset * 4)
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds)
    text = np.frombuffer(data if data is not None else b"", np.uint8)
    hashes = _murmur2(text, starts, lengths)
    found: Partitions = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int32) % partitions
    for row in np.flatnonzero(lengths > _LONG).tolist():
        found[row] = partition_for_key(keys[row].as_py(), partitions)
    return found


def _murmur2(
    text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint32]:
    hashes = lengths.astype(np.uint32) ^ _SEED
    short = np.where(lengths > _LONG, 0, lengths)
    for at in range(0, int(short.max()) & ~3, 4):
        rows = np.flatnonzero(short >= at + 4)
        word = _word(text, starts[rows] + at, 4) * _M
        word ^= word >> np.uint32(24)
        hashes[rows] = (hashes[rows] * _M) ^ (word * _M)
    for left in (1, 2, 3):
        rows = np.flatnonzero(short & 3 == left)
        if len(rows):
            tail = _word(text, starts[rows] + (short[rows] & ~3), left)
            hashes[rows] = (hashes[rows] ^ tail) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(
    text: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.uint32]:
    word = text[places].astype(np.uint32)
    for byte in range(1, count):
        word |= text[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word

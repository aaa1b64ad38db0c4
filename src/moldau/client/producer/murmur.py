"""The hash by which records with a key find their partition; the Java client's, bit for bit.

Compiled by mypyc where a compiler was at hand.
"""

from __future__ import annotations

from typing import Final

from moldau.records.native import i64

_SEED: Final[i64] = 0x9747B28C
_M: Final[i64] = 0x5BD1E995
_MASK: Final[i64] = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of the Java client, as an unsigned number."""
    length: i64 = len(data)
    h: i64 = (_SEED ^ length) & _MASK
    pos: i64 = 0
    whole: i64 = length & ~3
    while pos < whole:
        k: i64 = data[pos]
        b1: i64 = data[pos + 1]
        b2: i64 = data[pos + 2]
        b3: i64 = data[pos + 3]
        k = ((k | b1 << 8 | b2 << 16 | b3 << 24) * _M) & _MASK
        k ^= k >> 24
        h = ((h * _M) & _MASK) ^ ((k * _M) & _MASK)
        pos += 4
    if pos < length:
        tail: i64 = 0
        shift: i64 = 0
        while pos < length:
            byte: i64 = data[pos]
            tail |= byte << shift
            shift += 8
            pos += 1
        h = ((h ^ tail) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of ``key`` in a topic of ``partitions`` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

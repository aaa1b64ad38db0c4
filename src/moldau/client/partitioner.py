"""Which partition a record goes to: the Java producer's rules, so that both agree on every key.

A record with a key goes to ``murmur2(key) mod partitions``. Records without a key stick to one
partition until its batch is sent, then move on at random (KIP-480): full batches, even spread.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of the Java client, as an unsigned number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for k in struct.unpack_from(f"<{whole >> 2}I", data):
        k = (k * _M) & _MASK
        k ^= k >> 24
        h = ((h * _M) ^ (k * _M)) & _MASK
    if whole != length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of ``key`` in a topic of ``partitions`` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Keyed records by hash; records without a key to one partition per topic at a time."""

    __slots__ = ("_random", "_sticky")

    def __init__(self, rng: random.Random | None = None) -> None:
        self._random = rng or random.Random()  # noqa: S311 - spreading load needs no secrecy
        self._sticky: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        """``available`` are the partitions that have a leader; keyed records do not care."""
        if key is not None:
            return partition_for_key(key, partitions)
        chosen = self._sticky.get(topic)
        if chosen is None or chosen not in available:
            chosen = self._choose(partitions, available)
            self._sticky[topic] = chosen
        return chosen

    def batch_closed(self, topic: str, partition: int) -> None:
        """The batch of this partition was sent: the next record without a key starts elsewhere."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]

    def _choose(self, partitions: int, available: Sequence[int]) -> int:
        if available:
            return self._random.choice(available)
        return self._random.randrange(partitions)

"""Which partition of an internal topic holds a group or a transactional id; the partition's leader
is its coordinator.

The absolute value of Java's string hash (over UTF-16 code units), modulo the number of partitions.
Clients do not compute this, but other brokers and Kafka's tools do.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SMALLEST = -(1 << 31)


def java_hash(text: str) -> int:
    """``String.hashCode`` as a signed 32-bit integer."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Returns the partition, of so many, that ``key`` belongs to."""
    value = java_hash(key)
    # The smallest integer has no absolute value in 32 bits; Kafka takes 0 for it.
    return 0 if value == _SMALLEST else abs(value) % partitions

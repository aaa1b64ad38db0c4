"""Filters on topic, partition, offset and timestamp, as bounds on what is read. Pure.

Bounds leave out what cannot match and nothing else; Spark filters the rows that are read. A latest
timestamp is no bound: records need not be in the order of their timestamps, so one that is old
enough may follow any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from moldau.model import TopicPartition
from moldau.spark.offsets import PartitionOffsets

AtTimestamp = Callable[[Collection[TopicPartition], int], PartitionOffsets]
"""The first offset at or after a time in milliseconds; -1 where there is none."""

_HIGHEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Bounds:
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_partition: int = 0
    last_partition: int = _HIGHEST
    first_offset: int = 0
    last_offset: int = _HIGHEST
    first_timestamp: int | None = None
    """In milliseconds."""

    def admits(self, partition: TopicPartition) -> bool:
        topic, number = partition
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or number in self.partitions)
            and self.first_partition <= number <= self.last_partition
        )


def pushed(filters: Iterable[Filter]) -> Bounds:
    """What all of these filters together leave."""
    bounds = Bounds()
    for one in filters:
        bounds = _tighter(bounds, one)
    return bounds


def narrow(
    bounds: Bounds, start: PartitionOffsets, end: PartitionOffsets, at: AtTimestamp
) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Starting and ending offsets of the partitions that may have rows for these bounds."""
    if bounds == Bounds():
        return start, end
    start = {
        partition: max(offset, bounds.first_offset)
        for partition, offset in start.items()
        if bounds.admits(partition)
    }
    end = {partition: min(end[partition], bounds.last_offset + 1) for partition in start}
    if bounds.first_timestamp is not None and start:
        for partition, offset in at(list(start), bounds.first_timestamp).items():
            start[partition] = max(start[partition], end[partition] if offset < 0 else offset)
    return start, end


def _tighter(bounds: Bounds, one: Filter) -> Bounds:
    attribute: Any = getattr(one, "attribute", ())
    value: Any = getattr(one, "value", None)
    if len(attribute) != 1 or value is None:
        return bounds
    match attribute[0]:
        case "topic" if isinstance(one, EqualTo | EqualNullSafe | In):
            return replace(bounds, topics=_both(bounds.topics, _values(one)))
        case "partition" if isinstance(one, EqualTo | EqualNullSafe | In):
            return replace(bounds, partitions=_both(bounds.partitions, _values(one)))
        case "partition":
            first, last = _interval(one)
            return replace(
                bounds,
                first_partition=max(bounds.first_partition, first),
                last_partition=min(bounds.last_partition, last),
            )
        case "offset":
            first, last = _interval(one)
            return replace(
                bounds,
                first_offset=max(bounds.first_offset, first),
                last_offset=min(bounds.last_offset, last),
            )
        case "timestamp":
            return _from_timestamp(bounds, one)
    return bounds


def _values(one: Any) -> frozenset[Any]:
    return frozenset(one.value if isinstance(one, In) else (one.value,))


def _both(before: frozenset[Any] | None, now: frozenset[Any]) -> frozenset[Any]:
    return now if before is None else before & now


def _interval(one: Any) -> tuple[int, int]:
    """The lowest and the highest whole number that a filter leaves."""
    match one:
        case EqualTo() | EqualNullSafe():
            return one.value, one.value
        case In():
            numbers = [value for value in one.value if value is not None]
            return min(numbers, default=0), max(numbers, default=-1)
        case GreaterThan():
            return one.value + 1, _HIGHEST
        case GreaterThanOrEqual():
            return one.value, _HIGHEST
        case LessThan():
            return 0, one.value - 1
        case LessThanOrEqual():
            return 0, one.value
    return 0, _HIGHEST


def _from_timestamp(bounds: Bounds, one: Any) -> Bounds:
    lower = isinstance(one, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual)
    if not lower or not isinstance(one.value, datetime):
        return bounds
    when = one.value if one.value.tzinfo is not None else one.value.replace(tzinfo=UTC)
    # Rounded down: a record has whole milliseconds, and one too many is filtered by Spark.
    millis = int(when.timestamp() * 1000)
    first = millis if bounds.first_timestamp is None else max(millis, bounds.first_timestamp)
    return replace(bounds, first_timestamp=max(first, 0))

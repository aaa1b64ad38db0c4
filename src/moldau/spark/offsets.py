"""Offsets of many partitions: their JSON form, how much a batch takes, and which task reads what.

Pure: everything that the cluster knows is handed in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from moldau.model import TopicPartition

PartitionOffsets = Mapping[TopicPartition, int]

LATEST: Final = -1
EARLIEST: Final = -2


class OffsetError(ValueError):
    """Text that does not say offsets."""


class DataLossError(Exception):
    """Records that should be read are gone."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition from ``start`` up to, and without, ``end``."""

    topic: str
    partition: int
    start: int
    end: int
    batch_start: int = field(default=0, compare=False)
    """Where the batch that this is a part of begins in the partition."""
    batch_end: int = field(default=0, compare=False)

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """``{"topic":{"0":23,"1":-2}}``, the connector's form."""
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise OffsetError(f"this is no JSON ({error})") from None
    return from_nested(parsed)


def from_nested(nested: Any) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    try:
        for topic, partitions in nested.items():
            for number, offset in partitions.items():
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise OffsetError(f"{offset!r} is no offset")
                offsets[TopicPartition(topic, int(number))] = offset
    except (AttributeError, ValueError) as error:
        if isinstance(error, OffsetError):
            raise
        raise OffsetError("there must be an object of partitions for each topic") from None
    return offsets


def to_nested(offsets: PartitionOffsets) -> dict[str, dict[str, int]]:
    """The same as objects of JSON, in order."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(number)] = offset
    return nested


def limited(start: PartitionOffsets, latest: PartitionOffsets, most: int) -> PartitionOffsets:
    """Where a batch of at most about ``most`` records ends: each partition gives its share."""
    sizes = {
        partition: max(end - start.get(partition, end), 0) for partition, end in latest.items()
    }
    total = sum(sizes.values())
    if total <= most:
        return latest
    ends = {}
    for partition, end in latest.items():
        share = most * sizes[partition] / total
        # A share below one record is rounded up, or a slow partition would never have its turn.
        step = math.ceil(share) if share < 1 else math.floor(share)
        begin = start.get(partition, end)
        ends[partition] = min(begin + step, end) if end > begin else end
    return ends


def available(start: PartitionOffsets, latest: PartitionOffsets) -> int:
    """How many offsets there are to read."""
    return sum(max(end - start.get(partition, end), 0) for partition, end in latest.items())


def plan(
    start: PartitionOffsets,
    end: PartitionOffsets,
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """One range per partition that has something to read, or more if more tasks are wanted."""
    ranges = [
        OffsetRange(topic, number, begin, until, begin, until)
        for (topic, number), until in sorted(end.items())
        if until > (begin := start[TopicPartition(topic, number)])
    ]
    if max_records is not None:
        ranges = [part for one in ranges for part in _split(one, math.ceil(one.size / max_records))]
    if min_partitions is not None and len(ranges) < min_partitions:
        total = sum(one.size for one in ranges)
        ranges = [
            part
            for one in ranges
            for part in _split(one, max(round(one.size / total * min_partitions), 1))
        ]
    return ranges


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Parts of nearly equal size, none of them empty."""
    parts = max(1, min(parts, whole.size))
    cuts = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [replace(whole, start=begin, end=end) for begin, end in pairwise(cuts)]

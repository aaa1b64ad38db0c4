"""Small values of the consumer's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.arguments import by_partition
from moldau.model import OffsetAndMetadata, TopicPartition

Places = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets as users give them."""


class ConsumerGroupMetadata(NamedTuple):
    """What a transactional producer needs in order to commit offsets for a consumer (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def place(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """An offset with or without metadata."""
    if isinstance(offset, int):
        return OffsetAndMetadata(offset)
    if not isinstance(offset, OffsetAndMetadata):
        raise TypeError(f"an offset is an int or an OffsetAndMetadata, not {offset!r}")
    return offset


def places(offsets: Places, what: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """``what`` is the method that takes them."""
    return {partition: place(offset) for partition, offset in by_partition(offsets, what).items()}

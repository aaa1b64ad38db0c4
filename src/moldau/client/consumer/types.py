"""Small values of the consumer's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.model import OffsetAndMetadata, TopicPartition

Places = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets as users give them."""


class ConsumerGroupMetadata(NamedTuple):
    """What a transactional producer needs in order to commit offsets for a consumer (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def place(given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """An offset with or without metadata."""
    return OffsetAndMetadata(given) if isinstance(given, int) else given


def places(given: Places) -> dict[TopicPartition, OffsetAndMetadata]:
    return {partition: place(offset) for partition, offset in given.items()}

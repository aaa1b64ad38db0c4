"""What sticky assignors of Kafka's Java client put beside a member's subscription.

The annotations are read at run time, so this module does not postpone them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from moldau.client.consumer.assignors.base import NO_GENERATION
from moldau.client.consumer.assignors.embedded import by_topic
from moldau.model import TopicPartition
from moldau.wire.data_messages import decode, encode
from moldau.wire.declaring import INT32, STRING, since
from moldau.wire.errors import DecodeError


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    topic: str = field(metadata=STRING)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """What a member had in its last generation; its version is not written."""

    NEWEST: ClassVar = 1

    previous_assignment: tuple[TopicAssignment, ...]
    generation: int = field(metadata=INT32 | since(1), default=NO_GENERATION)

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition], generation: int) -> "StickyUserData":
        topics = tuple(TopicAssignment(*topic) for topic in by_topic(partitions))
        return cls(topics, generation)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(topic.topic, partition)
            for topic in self.previous_assignment
            for partition in topic.partitions
        )

    def encode(self) -> bytes:
        return encode(self, self.NEWEST)

    @classmethod
    def decode(cls, data: bytes | None) -> "StickyUserData":
        """What a member sent, whatever version it is of; nothing if it cannot be read."""
        for version in (1, 0):
            try:
                return decode(cls, version, data or b"")
            except DecodeError:
                continue
        return cls(())


@dataclass(frozen=True, slots=True)
class CooperativeStickyUserData:
    """The generation of a member whose subscription has no place for it (before version 2)."""

    generation: int = field(metadata=INT32)

    def encode(self) -> bytes:
        return encode(self, 0)

    @classmethod
    def decode(cls, data: bytes | None) -> "CooperativeStickyUserData":
        try:
            return decode(cls, 0, data or b"")
        except DecodeError:
            return cls(NO_GENERATION)

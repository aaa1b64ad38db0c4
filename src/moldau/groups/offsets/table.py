"""Committed offsets by group, topic and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from moldau.wire.stored.group_records import NO_TIMESTAMP, OffsetCommitValue

_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    """-1: it has none of its own and the group's retention time holds."""
    topic_id: UUID | None
    """The topic the offset was committed for, when the client knew."""
    sequence: int
    """The place of its record in the order of the log."""

    @classmethod
    def of(cls, value: OffsetCommitValue, sequence: int) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            sequence,
        )

    def is_expired(self, now_ms: int, retention_ms: int, since_ms: int | None) -> bool:
        """Whether the retention time is over.

        It runs from ``since_ms``, or without it from the commit. An expiry time that an old client
        gave with its commit comes before everything.
        """
        if self.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= self.expire_timestamp
        return now_ms - (self.commit_timestamp if since_ms is None else since_ms) >= retention_ms

    def is_of(self, topic_id: UUID | None) -> bool:
        """Whether it was committed for this topic, as far as both sides know ids."""
        return None in (topic_id, self.topic_id) or topic_id == self.topic_id


class OffsetTable:
    """Three levels of dictionaries; a level that becomes empty is removed."""

    __slots__ = ("_groups", "size")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.size = 0
        """How many offsets there are."""

    def groups(self) -> Iterator[str]:
        return iter(self._groups)

    def has_group(self, group: str) -> bool:
        return group in self._groups

    def topics(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """What a group has committed."""
        return self._groups.get(group, _NOTHING)

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.topics(group).get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        partitions = self._groups.setdefault(group, {}).setdefault(topic, {})
        if partition not in partitions:
            self.size += 1
        partitions[partition] = committed

    def remove(self, group: str, topic: str, partition: int) -> bool:
        """Forget an offset; say whether there was one."""
        topics = self._groups.get(group)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return False
        self.size -= 1
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group]
        return True

    def items(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for group, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group, topic, partition, committed

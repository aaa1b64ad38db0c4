"""The record of a committed offset: one per group, topic and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType
from moldau.model import NO_TOPIC_ID

NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    TYPE: ClassVar = RecordType.OFFSET_COMMIT

    group: str
    topic: str
    partition: int

    def encode(self) -> bytes:
        return b"\0\x01" + w.string(self.group) + w.string(self.topic) + w.int32(self.partition)

    @classmethod
    def decode(cls, reader: Reader) -> OffsetCommitKey:
        return cls(reader.string(), reader.string(), reader.int32())


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """Versions 0 to 4. Leader epochs came with 3, topic ids with 4."""

    offset: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    """Set only when an old client asked for a retention time of its own."""
    leader_epoch: int = -1
    topic_id: UUID = NO_TOPIC_ID

    def encode(self) -> bytes:
        """Version 4; but version 1, the only one that has it, when there is an expiry time."""
        if self.expire_timestamp != NO_TIMESTAMP:
            return (
                b"\0\x01"
                + w.int64(self.offset)
                + w.string(self.metadata)
                + w.int64(self.commit_timestamp)
                + w.int64(self.expire_timestamp)
            )
        known = self.topic_id != NO_TOPIC_ID
        return (
            b"\0\x04"
            + w.int64(self.offset)
            + w.int32(self.leader_epoch)
            + w.compact_string(self.metadata)
            + w.int64(self.commit_timestamp)
            + (b"\x01\0\x10" + self.topic_id.bytes if known else w.NO_TAGS)
        )

    @classmethod
    def decode(cls, reader: Reader, version: int) -> OffsetCommitValue:
        offset = reader.int64()
        leader_epoch = reader.int32() if version >= 3 else -1
        metadata = reader.compact_string() if version >= 4 else reader.string()
        commit_timestamp = reader.int64()
        expire_timestamp = reader.int64() if version == 1 else NO_TIMESTAMP
        tags = reader.tags() if version >= 4 else {}
        topic_id = tags[0].uuid() if 0 in tags else NO_TOPIC_ID
        return cls(offset, metadata, commit_timestamp, expire_timestamp, leader_epoch, topic_id)

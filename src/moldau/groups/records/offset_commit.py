"""The record of a committed offset: one per group, topic and partition.

By far the most frequent record, written with every commit and read again by the million when a
coordinator loads; so what Kafka 4 and we write is read and written by hand, without a ``Reader``.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar
from uuid import UUID

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType
from moldau.model import NO_TOPIC_ID

NO_TIMESTAMP = -1

_INT32 = Struct(">i")
_INT64 = Struct(">q")
_HEAD = Struct(">hqiB")
"""Version, offset, leader epoch, and the size of the metadata plus one as far as it fits."""
_ONE_BYTE = 0x80
_WITH_TOPIC_ID = b"\x01\0\x10"
"""One tagged field, number 0, of 16 bytes."""


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    TYPE: ClassVar = RecordType.OFFSET_COMMIT

    group: str
    topic: str
    partition: int

    def encode(self) -> bytes:
        group = self.group.encode()
        topic = self.topic.encode()
        return b"".join(
            (
                b"\0\x01",
                w.int16(len(group)),
                group,
                w.int16(len(topic)),
                topic,
                w.int32(self.partition),
            )
        )

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
        tags = w.NO_TAGS
        if self.topic_id is not NO_TOPIC_ID and self.topic_id.int:
            tags = _WITH_TOPIC_ID + self.topic_id.bytes
        return b"".join(
            (
                b"\0\x04",
                w.int64(self.offset),
                w.int32(self.leader_epoch),
                w.compact_string(self.metadata),
                w.int64(self.commit_timestamp),
                tags,
            )
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


def read_key(data: bytes) -> OffsetCommitKey | None:
    """The key; None when it needs a closer look, for one because it is damaged."""
    if len(data) < 10:
        return None
    group_end = 4 + (data[2] << 8 | data[3])
    topic_start = group_end + 2
    if topic_start > len(data):
        return None
    topic_end = topic_start + (data[group_end] << 8 | data[group_end + 1])
    if topic_end + 4 > len(data):
        return None
    try:
        return OffsetCommitKey(
            data[4:group_end].decode(),
            data[topic_start:topic_end].decode(),
            _INT32.unpack_from(data, topic_end)[0],
        )
    except UnicodeDecodeError:
        return None


def read_value(data: bytes) -> OffsetCommitValue | None:
    """A value of version 4; None when it needs a closer look."""
    if len(data) < _HEAD.size:
        return None
    version, offset, leader_epoch, size = _HEAD.unpack_from(data)
    end = _HEAD.size + size - 1
    if version != 4 or not 0 < size < _ONE_BYTE or end + 9 > len(data):
        return None
    topic_id = NO_TOPIC_ID
    if data[end + 8]:
        if data[end + 8 : end + 11] != _WITH_TOPIC_ID or end + 27 > len(data):
            return None
        topic_id = UUID(bytes=data[end + 11 : end + 27])
    try:
        metadata = data[_HEAD.size : end].decode() if size > 1 else ""
    except UnicodeDecodeError:
        return None
    timestamp: int = _INT64.unpack_from(data, end)[0]
    return OffsetCommitValue(offset, metadata, timestamp, NO_TIMESTAMP, leader_epoch, topic_id)

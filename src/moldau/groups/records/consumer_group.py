"""The records of a group under the consumer protocol (KIP-848): the group and its assignment.

Each part of such a group is a record of its own, so that a heartbeat writes only what changed. The
records of single members are in ``consumer_member``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_METADATA

    group_id: str

    def encode(self) -> bytes:
        return b"\0\x03" + w.string(self.group_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupMetadataKey:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0
    """A hash over all topics the group subscribes to; tells whether one of them changed."""

    def encode(self) -> bytes:
        tags = [(0, w.int64(self.metadata_hash))] if self.metadata_hash else []
        return b"\0\0" + w.int32(self.epoch) + w.tags(tags)

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupMetadataValue:
        epoch = reader.int32()
        tags = reader.tags()
        return cls(epoch, tags[0].int64() if 0 in tags else 0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_PARTITION_METADATA

    group_id: str

    def encode(self) -> bytes:
        return b"\0\x04" + w.string(self.group_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupPartitionMetadataKey:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class PartitionRacks:
    partition: int
    racks: tuple[str, ...] = ()

    def encode(self) -> bytes:
        racks = [w.compact_string(rack) for rack in self.racks]
        return w.int32(self.partition) + w.compact_array(racks) + w.NO_TAGS

    @classmethod
    def decode(cls, reader: Reader) -> PartitionRacks:
        partition = reader.int32()
        racks = reader.compact_array(reader.compact_string)
        reader.tags()
        return cls(partition, racks)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    topic_id: UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...] = ()

    def encode(self) -> bytes:
        return (
            self.topic_id.bytes
            + w.compact_string(self.topic_name)
            + w.int32(self.num_partitions)
            + w.compact_array([partition.encode() for partition in self.partition_metadata])
            + w.NO_TAGS
        )

    @classmethod
    def decode(cls, reader: Reader) -> TopicMetadata:
        topic_id = reader.uuid()
        name = reader.compact_string()
        count = reader.int32()
        partitions = reader.compact_array(lambda: PartitionRacks.decode(reader))
        reader.tags()
        return cls(topic_id, name, count, partitions)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue:
    """What Kafka 4.0 knew about the topics of a group; read, but not written any more."""

    topics: tuple[TopicMetadata, ...] = ()

    def encode(self) -> bytes:
        return b"\0\0" + w.compact_array([topic.encode() for topic in self.topics]) + w.NO_TAGS

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupPartitionMetadataValue:
        topics = reader.compact_array(lambda: TopicMetadata.decode(reader))
        reader.tags()
        return cls(topics)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA

    group_id: str

    def encode(self) -> bytes:
        return b"\0\x06" + w.string(self.group_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupTargetAssignmentMetadataKey:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp: int = 0
    """When the assignment was computed, in milliseconds."""

    def encode(self) -> bytes:
        stamp = self.assignment_timestamp
        tags = [(0, w.int64(stamp))] if stamp else []
        return b"\0\0" + w.int32(self.assignment_epoch) + w.tags(tags)

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupTargetAssignmentMetadataValue:
        epoch = reader.int32()
        tags = reader.tags()
        return cls(epoch, tags[0].int64() if 0 in tags else 0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION

    group_id: str
    regular_expression: str

    def encode(self) -> bytes:
        return b"\0\x10" + w.string(self.group_id) + w.string(self.regular_expression)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupRegularExpressionKey:
        return cls(reader.string(), reader.string())


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue:
    """Which topics matched a pattern, and when it was last looked at."""

    topics: tuple[str, ...]
    version: int
    timestamp: int

    def encode(self) -> bytes:
        return (
            b"\0\0"
            + w.compact_array([w.compact_string(topic) for topic in self.topics])
            + w.int64(self.version)
            + w.int64(self.timestamp)
            + w.NO_TAGS
        )

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupRegularExpressionValue:
        topics = reader.compact_array(reader.compact_string)
        version = reader.int64()
        timestamp = reader.int64()
        reader.tags()
        return cls(topics, version, timestamp)

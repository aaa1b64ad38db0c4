"""The records of one member of a group under the consumer protocol (KIP-848).

What the member told about itself, what it shall have (its target), and what it has at the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_MEMBER_METADATA

    group_id: str
    member_id: str

    def encode(self) -> bytes:
        return b"\0\x05" + w.string(self.group_id) + w.string(self.member_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupMemberMetadataKey:
        return cls(reader.string(), reader.string())


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    name: str
    metadata: bytes

    def encode(self) -> bytes:
        return w.compact_string(self.name) + w.compact_bytes(self.metadata) + w.NO_TAGS

    @classmethod
    def decode(cls, reader: Reader) -> ClassicProtocol:
        name = reader.compact_string()
        metadata = reader.compact_bytes()
        reader.tags()
        return cls(name, metadata)


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...] = ()

    def encode(self) -> bytes:
        return (
            w.int32(self.session_timeout_ms)
            + w.compact_array([protocol.encode() for protocol in self.supported_protocols])
            + w.NO_TAGS
        )

    @classmethod
    def decode(cls, reader: Reader) -> ClassicMemberMetadata | None:
        # A structure in a tagged field has a number before it: is it there?
        if reader.varint() == 0:
            return None
        session_timeout_ms = reader.int32()
        protocols = reader.compact_array(lambda: ClassicProtocol.decode(reader))
        reader.tags()
        return cls(session_timeout_ms, protocols)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None

    def encode(self) -> bytes:
        classic = self.classic_member_metadata
        return (
            b"\0\0"
            + w.compact_nullable_string(self.instance_id)
            + w.compact_nullable_string(self.rack_id)
            + w.compact_string(self.client_id)
            + w.compact_string(self.client_host)
            + w.compact_array([w.compact_string(name) for name in self.subscribed_topic_names])
            + w.compact_nullable_string(self.subscribed_topic_regex)
            + w.int32(self.rebalance_timeout_ms)
            + w.compact_nullable_string(self.server_assignor)
            # Left out, the field would be an empty structure to Kafka: a member under the classic
            # protocol. That it is not there has to be said.
            + w.tags([(0, b"\x00" if classic is None else b"\x01" + classic.encode())])
        )

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupMemberMetadataValue:
        instance_id = reader.compact_nullable_string()
        rack_id = reader.compact_nullable_string()
        client_id = reader.compact_string()
        client_host = reader.compact_string()
        names = reader.compact_array(reader.compact_string)
        regex = reader.compact_nullable_string()
        rebalance_timeout_ms = reader.int32()
        assignor = reader.compact_nullable_string()
        tags = reader.tags()
        classic = ClassicMemberMetadata.decode(tags[0]) if 0 in tags else None
        return cls(
            instance_id,
            rack_id,
            client_id,
            client_host,
            names,
            regex,
            rebalance_timeout_ms,
            assignor,
            classic,
        )


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER

    group_id: str
    member_id: str

    def encode(self) -> bytes:
        return b"\0\x07" + w.string(self.group_id) + w.string(self.member_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupTargetAssignmentMemberKey:
        return cls(reader.string(), reader.string())


@dataclass(frozen=True, slots=True)
class TargetPartitions:
    """Partitions of one topic that a member shall have."""

    topic_id: UUID
    partitions: tuple[int, ...]

    def encode(self) -> bytes:
        partitions = [w.int32(partition) for partition in self.partitions]
        return self.topic_id.bytes + w.compact_array(partitions) + w.NO_TAGS

    @classmethod
    def decode(cls, reader: Reader) -> TargetPartitions:
        topic_id = reader.uuid()
        partitions = reader.compact_array(reader.int32)
        reader.tags()
        return cls(topic_id, partitions)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TargetPartitions, ...] = ()

    def encode(self) -> bytes:
        topics = [topic.encode() for topic in self.topic_partitions]
        return b"\0\0" + w.compact_array(topics) + w.NO_TAGS

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupTargetAssignmentMemberValue:
        topics = reader.compact_array(lambda: TargetPartitions.decode(reader))
        reader.tags()
        return cls(topics)


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    TYPE: ClassVar = RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT

    group_id: str
    member_id: str

    def encode(self) -> bytes:
        return b"\0\x08" + w.string(self.group_id) + w.string(self.member_id)

    @classmethod
    def decode(cls, reader: Reader) -> ConsumerGroupCurrentMemberAssignmentKey:
        return cls(reader.string(), reader.string())


@dataclass(frozen=True, slots=True)
class CurrentPartitions:
    """Partitions of one topic that a member has, or must give up."""

    topic_id: UUID
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None
    """For each partition the member epoch at which it was assigned; None in records of 4.0."""

    def encode(self) -> bytes:
        partitions = [w.int32(partition) for partition in self.partitions]
        tags = []
        if self.assignment_epochs is not None:
            epochs = [w.int32(epoch) for epoch in self.assignment_epochs]
            tags = [(0, w.compact_array(epochs))]
        return self.topic_id.bytes + w.compact_array(partitions) + w.tags(tags)

    @classmethod
    def decode(cls, reader: Reader) -> CurrentPartitions:
        topic_id = reader.uuid()
        partitions = reader.compact_array(reader.int32)
        epochs = reader.tags().get(0)
        if epochs is None:
            return cls(topic_id, partitions)
        return cls(topic_id, partitions, epochs.compact_nullable_array(epochs.int32))


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    """The state of the reconciliation, as Kafka numbers it."""
    assigned_partitions: tuple[CurrentPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentPartitions, ...] = ()

    def encode(self) -> bytes:
        return (
            b"\0\0"
            + w.int32(self.member_epoch)
            + w.int32(self.previous_member_epoch)
            + w.int8(self.state)
            + w.compact_array([topic.encode() for topic in self.assigned_partitions])
            + w.compact_array([topic.encode() for topic in self.partitions_pending_revocation])
            + w.NO_TAGS
        )

    @classmethod
    def decode(cls, reader: Reader, _version: int) -> ConsumerGroupCurrentMemberAssignmentValue:
        member_epoch = reader.int32()
        previous_member_epoch = reader.int32()
        state = reader.int8()
        assigned = reader.compact_array(lambda: CurrentPartitions.decode(reader))
        pending = reader.compact_array(lambda: CurrentPartitions.decode(reader))
        reader.tags()
        return cls(member_epoch, previous_member_epoch, state, assigned, pending)

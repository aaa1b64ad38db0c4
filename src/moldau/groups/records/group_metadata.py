"""The record of a classic group: its generation, its members and what they were assigned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    TYPE: ClassVar = RecordType.GROUP_METADATA

    group: str

    def encode(self) -> bytes:
        return b"\0\x02" + w.string(self.group)

    @classmethod
    def decode(cls, reader: Reader) -> GroupMetadataKey:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    """Milliseconds. What was written before it existed has the session timeout here."""
    session_timeout: int
    subscription: bytes
    """The member's metadata for the protocol that was chosen."""
    assignment: bytes

    def encode(self) -> bytes:
        return (
            w.string(self.member_id)
            + w.nullable_string(self.group_instance_id)
            + w.string(self.client_id)
            + w.string(self.client_host)
            + w.int32(self.rebalance_timeout)
            + w.int32(self.session_timeout)
            + w.sized_bytes(self.subscription)
            + w.sized_bytes(self.assignment)
        )

    @classmethod
    def decode(cls, reader: Reader, version: int) -> MemberMetadata:
        string = reader.compact_string if version >= 4 else reader.string
        nullable = reader.compact_nullable_string if version >= 4 else reader.nullable_string
        data = reader.compact_bytes if version >= 4 else reader.sized_bytes
        member_id = string()
        instance_id = nullable() if version >= 3 else None
        client_id = string()
        client_host = string()
        first_timeout = reader.int32()
        session_timeout = reader.int32() if version >= 1 else first_timeout
        subscription = data()
        assignment = data()
        if version >= 4:
            reader.tags()
        return cls(
            member_id,
            instance_id,
            client_id,
            client_host,
            first_timeout,
            session_timeout,
            subscription,
            assignment,
        )


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """Versions 0 to 4; version 3 is what Kafka 4.3 writes."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = -1
    """When the group entered its state, in milliseconds; -1 in versions 0 and 1."""
    members: tuple[MemberMetadata, ...] = ()

    def encode(self) -> bytes:
        return (
            b"\0\x03"
            + w.string(self.protocol_type)
            + w.int32(self.generation)
            + w.nullable_string(self.protocol)
            + w.nullable_string(self.leader)
            + w.int64(self.current_state_timestamp)
            + w.array([member.encode() for member in self.members])
        )

    @classmethod
    def decode(cls, reader: Reader, version: int) -> GroupMetadataValue:
        nullable = reader.compact_nullable_string if version >= 4 else reader.nullable_string
        protocol_type = reader.compact_string() if version >= 4 else reader.string()
        generation = reader.int32()
        protocol = nullable()
        leader = nullable()
        state_timestamp = reader.int64() if version >= 2 else -1
        array = reader.compact_array if version >= 4 else reader.array
        members = array(lambda: MemberMetadata.decode(reader, version))
        if version >= 4:
            reader.tags()
        return cls(protocol_type, generation, protocol, leader, state_timestamp, members)

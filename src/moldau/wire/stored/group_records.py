"""The records of ``__consumer_offsets``: committed offsets and groups of both kinds.

A classic group is one record. Of a group under the consumer protocol (KIP-848) each part is a
record of its own, so that a heartbeat writes only what changed: the group, its target assignment,
and for each member what it told about itself, what it shall have and what it has at the moment.

The annotations are read at run time, so this module does not postpone them.
"""

import uuid
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from moldau.wire.declaring import (
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    absent,
    since,
    tagged,
)
from moldau.wire.stored.record_types import RecordType, RecordTypes

NO_TIMESTAMP: Final = -1
NO_TIMEOUT: Final = -1

# Committed offsets


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    group: str = field(metadata=STRING)
    topic: str = field(metadata=STRING)
    partition: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    NEWEST: ClassVar = 4
    FLEXIBLE: ClassVar = 4

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32 | since(3), default=-1, kw_only=True)
    metadata: str = field(metadata=STRING)
    commit_timestamp: int = field(metadata=INT64)
    expire_timestamp: int = field(metadata=INT64 | since(1, until=1), default=NO_TIMESTAMP)
    """Set only when an old client asked for a retention time of its own."""
    topic_id: uuid.UUID | None = field(metadata=UUID | tagged(0, since=4), default=None)
    """The topic the offset was committed for, when the client knew."""

    @property
    def write_version(self) -> int:
        """The newest; but the only one that has it when there is an expiry time."""
        return self.NEWEST if self.expire_timestamp == NO_TIMESTAMP else 1


# Classic groups


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    group: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: str = field(metadata=STRING)
    group_instance_id: str | None = field(metadata=STRING | since(3), default=None)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout: int = field(metadata=INT32 | since(1), default=NO_TIMEOUT)
    """Milliseconds; -1 stands for the session timeout."""
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    """The member's metadata for the protocol that was chosen."""
    assignment: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    NEWEST: ClassVar = 4
    FLEXIBLE: ClassVar = 4
    write_version: ClassVar = 3

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp: int = field(metadata=INT64 | since(2), default=NO_TIMESTAMP)
    """When the group entered its state, in milliseconds."""
    members: tuple[MemberMetadata, ...] = ()


# Groups under the consumer protocol


class _OneVersion:
    """A value that has had one version so far, a flexible one."""

    __slots__ = ()

    FLEXIBLE: ClassVar = 0
    write_version: ClassVar = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey:
    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue(_OneVersion):
    epoch: int = field(metadata=INT32)
    metadata_hash: int = field(metadata=INT64 | tagged(0), default=0)
    """A hash over all topics the group subscribes to; tells whether one of them changed."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int = field(metadata=INT32)
    racks: tuple[str, ...] = field(metadata=STRING, default=())


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    topic_id: uuid.UUID = field(metadata=UUID)
    topic_name: str = field(metadata=STRING)
    num_partitions: int = field(metadata=INT32)
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue(_OneVersion):
    """What Kafka 4.0 knew about the topics of a group; read, but not written any more."""

    topics: tuple[TopicMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(_OneVersion):
    assignment_epoch: int = field(metadata=INT32)
    assignment_timestamp: int = field(metadata=INT64 | tagged(0), default=0)
    """When the assignment was computed, in milliseconds."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey:
    group_id: str = field(metadata=STRING)
    regular_expression: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue(_OneVersion):
    """Which topics matched a pattern, and when it was last looked at."""

    topics: tuple[str, ...] = field(metadata=STRING)
    version: int = field(metadata=INT64)
    timestamp: int = field(metadata=INT64)


# Members of such groups


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey:
    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    name: str = field(metadata=STRING)
    metadata: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int = field(metadata=INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue(_OneVersion):
    instance_id: str | None = field(metadata=STRING)
    rack_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    subscribed_topic_names: tuple[str, ...] = field(metadata=STRING)
    subscribed_topic_regex: str | None = field(metadata=STRING)
    rebalance_timeout_ms: int = field(metadata=INT32, default=-1)
    server_assignor: str | None = field(metadata=STRING, default=None)
    # Left out, the field would be an empty structure to Kafka: a member under the classic protocol.
    # So that there is none has to be said.
    classic_member_metadata: ClassicMemberMetadata | None = field(
        metadata=tagged(0) | absent(ClassicMemberMetadata(0)), default=None
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class TargetPartitions:
    """Partitions of one topic that a member shall have."""

    topic_id: uuid.UUID = field(metadata=UUID)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue(_OneVersion):
    topic_partitions: tuple[TargetPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class CurrentPartitions:
    """Partitions of one topic that a member has, or must give up."""

    topic_id: uuid.UUID = field(metadata=UUID)
    partitions: tuple[int, ...] = field(metadata=INT32)
    assignment_epochs: tuple[int, ...] | None = field(metadata=INT32 | tagged(0), default=None)
    """For each partition the member epoch at which it was assigned; None in records of 4.0."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentValue(_OneVersion):
    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=INT8)
    """The state of the reconciliation, as Kafka numbers it."""
    assigned_partitions: tuple[CurrentPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentPartitions, ...] = ()


# All of them


class GroupRecordType(IntEnum):
    LEGACY_OFFSET_COMMIT = 0
    """Offset commits as Kafka 0.8 wrote them. Same key as OFFSET_COMMIT."""
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    """No longer written since Kafka 4.1, which keeps a hash in CONSUMER_GROUP_METADATA instead;
    tombstones still are."""
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


GroupKey: TypeAlias = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupRegularExpressionKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
)
GroupValue: TypeAlias = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupRegularExpressionValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
)

GROUP_RECORDS: Final[RecordTypes[GroupKey, GroupValue]] = RecordTypes(
    {
        GroupRecordType.LEGACY_OFFSET_COMMIT: RecordType(OffsetCommitKey, OffsetCommitValue),
        GroupRecordType.OFFSET_COMMIT: RecordType(OffsetCommitKey, OffsetCommitValue),
        GroupRecordType.GROUP_METADATA: RecordType(GroupMetadataKey, GroupMetadataValue),
        GroupRecordType.CONSUMER_GROUP_METADATA: RecordType(
            ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
        ),
        GroupRecordType.CONSUMER_GROUP_PARTITION_METADATA: RecordType(
            ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
        ),
        GroupRecordType.CONSUMER_GROUP_MEMBER_METADATA: RecordType(
            ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue
        ),
        GroupRecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: RecordType(
            ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
        ),
        GroupRecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: RecordType(
            ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
        ),
        GroupRecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordType(
            ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
        ),
        GroupRecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: RecordType(
            ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
        ),
    }
)

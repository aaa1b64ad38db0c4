"""From keys and values to the bytes of a record and back."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from moldau.groups.records import consumer_group as group
from moldau.groups.records import consumer_member as member
from moldau.groups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from moldau.groups.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
    read_value,
)
from moldau.groups.records.reading import Reader
from moldau.groups.records.types import RecordType
from moldau.outcome import Record
from moldau.records.errors import InvalidRecordError

Key: TypeAlias = (
    OffsetCommitKey
    | GroupMetadataKey
    | group.ConsumerGroupMetadataKey
    | group.ConsumerGroupPartitionMetadataKey
    | group.ConsumerGroupTargetAssignmentMetadataKey
    | group.ConsumerGroupRegularExpressionKey
    | member.ConsumerGroupMemberMetadataKey
    | member.ConsumerGroupTargetAssignmentMemberKey
    | member.ConsumerGroupCurrentMemberAssignmentKey
)
Value: TypeAlias = (
    OffsetCommitValue
    | GroupMetadataValue
    | group.ConsumerGroupMetadataValue
    | group.ConsumerGroupPartitionMetadataValue
    | group.ConsumerGroupTargetAssignmentMetadataValue
    | group.ConsumerGroupRegularExpressionValue
    | member.ConsumerGroupMemberMetadataValue
    | member.ConsumerGroupTargetAssignmentMemberValue
    | member.ConsumerGroupCurrentMemberAssignmentValue
)


class Schema(NamedTuple):
    key: type[Key]
    value: type[Value]
    newest: int
    """The newest version of the value that can be read."""


SCHEMAS: Final[dict[int, Schema]] = {
    RecordType.LEGACY_OFFSET_COMMIT: Schema(OffsetCommitKey, OffsetCommitValue, 4),
    RecordType.OFFSET_COMMIT: Schema(OffsetCommitKey, OffsetCommitValue, 4),
    RecordType.GROUP_METADATA: Schema(GroupMetadataKey, GroupMetadataValue, 4),
    RecordType.CONSUMER_GROUP_METADATA: Schema(
        group.ConsumerGroupMetadataKey, group.ConsumerGroupMetadataValue, 0
    ),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: Schema(
        group.ConsumerGroupPartitionMetadataKey, group.ConsumerGroupPartitionMetadataValue, 0
    ),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: Schema(
        member.ConsumerGroupMemberMetadataKey, member.ConsumerGroupMemberMetadataValue, 0
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Schema(
        group.ConsumerGroupTargetAssignmentMetadataKey,
        group.ConsumerGroupTargetAssignmentMetadataValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Schema(
        member.ConsumerGroupTargetAssignmentMemberKey,
        member.ConsumerGroupTargetAssignmentMemberValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Schema(
        member.ConsumerGroupCurrentMemberAssignmentKey,
        member.ConsumerGroupCurrentMemberAssignmentValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: Schema(
        group.ConsumerGroupRegularExpressionKey, group.ConsumerGroupRegularExpressionValue, 0
    ),
}

_OFFSET_COMMIT: Final = b"\0\x01"


def to_record(key: Key, value: Value | None) -> Record:
    """The record that sets a key; without a value, the one that removes it."""
    return Record(key.encode(), None if value is None else value.encode())


def tombstone(key: Key) -> Record:
    return Record(key.encode(), None)


def from_record(key: bytes, value: bytes | None) -> tuple[Key, Value | None] | None:
    """What a record says; None when it is of a kind that is not known here.

    ``InvalidRecordError``: the bytes are not what their kind and version promise, or a value is of
    a version from the future. To go on without it would lose a commit or a member silently.
    """
    if key[:2] == _OFFSET_COMMIT and (offset_key := read_key(key)) is not None:
        if value is None:
            return offset_key, None
        if (offset_value := read_value(value)) is not None:
            return offset_key, offset_value
    reader = Reader(key)
    schema = SCHEMAS.get(reader.int16())
    if schema is None:
        return None
    decoded = schema.key.decode(reader)
    if value is None:
        return decoded, None
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= schema.newest:
        raise InvalidRecordError(
            f"version {version} of {schema.value.__name__}: at most {schema.newest} can be read"
        )
    return decoded, schema.value.decode(reader, version)

"""A classic group as a record of ``__consumer_offsets``, and back."""

from __future__ import annotations

from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember
from moldau.groups.classic.states import ClassicGroupState
from moldau.groups.outcome import Record
from moldau.groups.records import to_record
from moldau.wire.stored.group_records import (
    NO_TIMEOUT,
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)


def group_record(group: ClassicGroup) -> Record:
    """The group as it is now. One that is unsettled has no leader in its record, and no Kafka
    minds: whoever loads it makes the first member the leader."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=None if group.is_unsettled else group.leader,
        current_state_timestamp=(
            NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms
        ),
        members=tuple(_member_metadata(group, member) for member in group.members.values()),
    )
    return to_record(GroupMetadataKey(group.group_id), value)


def _member_metadata(group: ClassicGroup, member: ClassicMember) -> MemberMetadata:
    assert group.protocol is not None, "a group with members has chosen a protocol before it stores"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol),
        assignment=member.assignment,
    )


def new_group_record(group: ClassicGroup) -> Record:
    """A group that exists, and no more; members may be on their way into it."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=(
            NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms
        ),
    )
    return to_record(GroupMetadataKey(group.group_id), value)


def tombstone(group_id: str) -> Record:
    return to_record(GroupMetadataKey(group_id), None)


def restored(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record describes. Members support what was chosen; more is not stored."""
    timestamp = value.current_state_timestamp
    group = ClassicGroup(
        group_id,
        ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp_ms=None if timestamp == NO_TIMESTAMP else timestamp,
    )
    group.is_unsettled = value.leader is None
    for stored in value.members:
        rebalance_timeout_ms = stored.rebalance_timeout
        if rebalance_timeout_ms == NO_TIMEOUT:
            rebalance_timeout_ms = stored.session_timeout
        group.add(
            ClassicMember(
                member_id=stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    group.refresh_subscription()
    return group

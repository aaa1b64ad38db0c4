"""What is to be stored of a classic group, in each of the cases in which something is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember
from moldau.wire.stored.group_records import NO_TIMESTAMP, GroupMetadataValue


def as_it_is(group: ClassicGroup) -> GroupMetadataValue:
    """The group as it is now. One that is unsettled has no leader in its record, and no Kafka
    minds: whoever loads it makes the first member the leader."""
    timestamp = group.state_timestamp_ms
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return _value(group, assignments, NO_TIMESTAMP if timestamp is None else timestamp)


def new(now_ms: int) -> GroupMetadataValue:
    """A group that exists, and no more; members may be on their way into it."""
    return GroupMetadataValue("", 0, None, None, now_ms)


def without_members(group: ClassicGroup, now_ms: int) -> GroupMetadataValue:
    """The next generation of a group that nobody is left in."""
    return GroupMetadataValue(group.protocol_type or "", group.generation + 1, None, None, now_ms)


def with_assignment(
    group: ClassicGroup, parts: Mapping[str, bytes], now_ms: int
) -> GroupMetadataValue:
    """The generation that has been announced, now that its leader has divided the work."""
    return _value(group, parts, now_ms)


def with_returned(
    group: ClassicGroup, member: ClassicMember, returned: ClassicMember
) -> GroupMetadataValue:
    """A stable group in which a static member has come back under another member id.

    It keeps its place, its part of the work, and the client that it was first known by.
    """
    value = as_it_is(group)
    stored = replace(
        returned.stored(value.protocol or "", member.assignment),
        client_id=member.client_id,
        client_host=member.client_host,
    )
    return replace(
        value,
        leader=returned.member_id if value.leader == member.member_id else value.leader,
        members=tuple(
            stored if other.member_id == member.member_id else other for other in value.members
        ),
    )


def _value(
    group: ClassicGroup, assignments: Mapping[str, bytes], timestamp_ms: int
) -> GroupMetadataValue:
    protocol = group.protocol
    assert protocol is not None or not group.members, "members have chosen a protocol before"
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=None if group.is_unsettled else group.leader,
        current_state_timestamp=timestamp_ms,
        members=tuple(
            member.stored(protocol or "", assignments.get(member_id, b""))
            for member_id, member in group.members.items()
        ),
    )

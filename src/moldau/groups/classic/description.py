"""What there is to tell about a classic group, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.states import ClassicGroupState


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    protocol_type: str
    protocol_data: str
    """The protocol that was chosen; empty unless the group is stable."""
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str


def describe(group: ClassicGroup) -> GroupDescription:
    """Members' metadata is shown for a stable group only; before, the protocol is not settled."""
    protocol = group.protocol if group.state is ClassicGroupState.STABLE else None
    return GroupDescription(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=b"" if protocol is None else member.metadata(protocol),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def listing(group: ClassicGroup) -> GroupListing:
    return GroupListing(group.group_id, group.protocol_type or "", group.state.value)

"""Classic groups as DescribeGroups and ListGroups show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember
from kio.schema.list_groups.v5.response import ListedGroup

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState, GroupDescription, GroupListing
from moldau.wire.make import make

CLASSIC = "classic"
_FIRST_VERSION_WITH_NOT_FOUND = 6


def described(
    group_id: str, group: GroupDescription | None, version: int, missing_because: str = "not found"
) -> DescribedGroup:
    """A group, or that there is none: dead, and an error where clients know it (KIP-1043)."""
    if group is None:
        missing = version >= _FIRST_VERSION_WITH_NOT_FOUND
        return make(
            DescribedGroup,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} {missing_because}." if missing else None,
            group_id=group_id,
            group_state=ClassicGroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=(),
        )
    return make(
        DescribedGroup,
        error_code=ErrorCode.NONE,
        error_message=None,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=tuple(
            make(
                DescribedGroupMember,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
    )


def listed(group: GroupListing) -> ListedGroup:
    return make(
        ListedGroup,
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=CLASSIC,
    )


def filtered(
    groups: Iterable[ListedGroup], states: Collection[str], types: Collection[str]
) -> list[ListedGroup]:
    """Those in one of the states and of one of the types; no filter lets all through."""
    wanted_states = {state.casefold() for state in states}
    wanted_types = {kind.casefold() for kind in types}
    return [
        group
        for group in groups
        if (not wanted_states or group.group_state.casefold() in wanted_states)
        and (not wanted_types or group.group_type.casefold() in wanted_types)
    ]

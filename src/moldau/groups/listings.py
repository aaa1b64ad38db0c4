"""Classic groups as DescribeGroups and ListGroups show them."""

from __future__ import annotations

from collections.abc import Iterable

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


class GroupFilter:
    """Groups in one of the states and of one of the types; an empty filter lets all through."""

    def __init__(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self._states = {state.casefold() for state in states}
        self._types = {kind.casefold() for kind in types}

    def __call__(self, group: ListedGroup) -> bool:
        return (not self._states or group.group_state.casefold() in self._states) and (
            not self._types or group.group_type.casefold() in self._types
        )

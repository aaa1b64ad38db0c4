"""Whether an OffsetCommit fits the group it names."""

from __future__ import annotations

from moldau.errors import ErrorCode
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.states import ClassicGroupState as State

_GROUP_NOT_FOUND_VERSION = 9
"""From here on OffsetCommit may answer GROUP_ID_NOT_FOUND (KIP-848)."""


def check_commit_to_no_group(generation: int, version: int, transactional: bool) -> ErrorCode:
    """A commit to a group that does not exist: fine for a consumer that assigns itself."""
    if generation < 0:
        return ErrorCode.NONE
    if transactional or version < _GROUP_NOT_FOUND_VERSION:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.GROUP_ID_NOT_FOUND


def check_commit(
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
    transactional: bool,
) -> ErrorCode:
    is_empty = group.state is State.EMPTY
    if generation < 0 and is_empty:
        return ErrorCode.NONE
    if generation >= 0 or member_id or instance_id is not None:
        error = group.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional and not is_empty:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and group.state is State.COMPLETING_REBALANCE:
        # It knows the new generation, but not yet its part in it.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE

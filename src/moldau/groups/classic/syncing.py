"""SyncGroup: the leader brings the assignment, everybody gets their part of it."""

from __future__ import annotations

from kio.schema.sync_group.v5.request import SyncGroupRequest

from moldau.errors import ErrorCode
from moldau.groups.classic import responses, stored
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import Parked
from moldau.groups.classic.rebalance import Rebalancer
from moldau.groups.classic.states import ClassicGroupState as State
from moldau.groups.classic.turn import Turn

_MANDATORY_PROTOCOL_VERSION = 5
"""From here on SyncGroup has to name the protocol it was told (KIP-559)."""


def check_sync_request(request: SyncGroupRequest, version: int) -> ErrorCode:
    """What no group could answer."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if version >= _MANDATORY_PROTOCOL_VERSION and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def check_sync(group: ClassicGroup | None, request: SyncGroupRequest, version: int) -> ErrorCode:
    """Whether a member may ask for its part now."""
    error = check_sync_request(request, version)
    if error is not ErrorCode.NONE:
        return error
    if group is None or group.state is State.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(named: str | None, actual: str | None) -> bool:
    return named is not None and named != actual


class Syncing:
    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, parked: Parked, turn: Turn
    ) -> None:
        """A request that ``check_sync`` found good."""
        member = group.members[request.member_id]
        self._rebalancer.note_sync(group, member.member_id)
        if group.state is State.STABLE:
            turn.reply(parked.token, responses.assignment(group, member))
            return
        self._rebalancer.park_sync(member, parked, turn)
        if group.leader == member.member_id:
            parts = {part.member_id: bytes(part.assignment) for part in request.assignments}
            self._assign(group, parts, turn)

    def _assign(self, group: ClassicGroup, parts: dict[str, bytes], turn: Turn) -> None:
        """The leader has divided the work: store it, and let everybody have their part."""
        value = stored.with_assignment(group, parts, turn.now_ms)
        # If it cannot be, nobody has the assignment, and everybody has to join again.
        turn.store(
            group.group_id, value, lambda aftermath, _: self._rebalancer.prepare(group, aftermath)
        )
        for member in value.members:
            waiting = group.members[member.member_id]
            parked = waiting.parked_sync
            if parked is not None:
                waiting.parked_sync = None
                response = responses.synced(value.protocol_type, value.protocol, member.assignment)
                turn.reply_if_stored(parked.token, response, responses.sync_error)
                # Its session may have run out unnoticed while it waited.
                self._rebalancer.refresh(group, waiting, turn.now_ms)

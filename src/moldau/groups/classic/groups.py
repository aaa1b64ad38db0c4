"""The classic groups of one ``__consumer_offsets`` partition.

Which groups there are, and what is stored of them, changes in ``replay`` only; ``group.py`` says
what that is. Records are written when the leader's assignment arrives, when a group is created or
becomes empty, and when a static member changes its id. Everything in between (who has joined, who
waits) is a rebalance, which is not stored, and changes as requests come in. See
``docs/adr/0013-classic-groups-by-replay.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest

from moldau.errors import ErrorCode
from moldau.groups.classic import description, responses, stored
from moldau.groups.classic.deadlines import ClassicDeadline, DeadlineKind
from moldau.groups.classic.description import GroupDescription, GroupListing
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.joining import Joiner, Joining
from moldau.groups.classic.member import ClassicMember, Parked
from moldau.groups.classic.offset_validation import check_commit, check_commit_to_no_group
from moldau.groups.classic.rebalance import Rebalancer
from moldau.groups.classic.states import ClassicGroupState as State
from moldau.groups.classic.syncing import Syncing, check_sync
from moldau.groups.classic.turn import OnFailure, Turn
from moldau.groups.client_info import ClientInfo
from moldau.groups.records import tombstone
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.outcome import Outcome, Record, Reply
from moldau.wire.stored.group_records import GroupMetadataKey, GroupMetadataValue

Records = list[Record]
Replies = list[Reply]


class ClassicGroups:
    """First ``replay`` what is stored, then ``on_loaded``, then requests and deadlines.

    ``timeouts`` may be shared with other coordinators: keys made here are ``ClassicDeadline``.
    ``new_member_id`` makes a unique member id that begins with its argument, a client id or an
    instance id.
    """

    def __init__(
        self,
        settings: GroupSettings,
        timeouts: Timeouts[Any],
        new_member_id: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._timeouts = timeouts
        self._groups: dict[str, ClassicGroup] = {}
        self._unstored: dict[str, ClassicGroup] = {}
        """Groups whose first record is on its way, with the rebalance that has begun in them."""
        self._rebalancer = Rebalancer(settings, timeouts)
        self._joining = Joining(settings, self._rebalancer, new_member_id)
        self._syncing = Syncing(self._rebalancer)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    def member(
        self, group_id: str, member_id: str, instance_id: str | None = None
    ) -> ClassicMember | None:
        """A static member that comes back has no member id yet."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        if not member_id and instance_id is not None:
            member_id = group.static_member_id(instance_id) or ""
        return group.members.get(member_id)

    def footprints(self, has_offsets: Callable[[str], bool]) -> Iterator[int]:
        """What members take, in bytes, and groups without members and offsets."""
        for group in (*self._groups.values(), *self._unstored.values()):
            if group.is_inhabited or not has_offsets(group.group_id):
                yield from group.footprints()

    # -- JoinGroup -----------------------------------------------------------------------------

    def join(
        self,
        request: JoinGroupRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        joiner = Joiner(request, token, client, version)
        error = self._check_join(request, joiner)
        if error is not ErrorCode.NONE:
            return Outcome.reply(
                token, responses.join_error(error, request.member_id, version=version)
            )
        turn = Turn(now_ms)
        group = self._groups.get(request.group_id)
        if group is not None:
            self._joining.join(group, joiner, turn)
            return turn.outcome()
        group = ClassicGroup(request.group_id, state_timestamp_ms=now_ms)
        self._unstored[group.group_id] = group
        turn.store(group.group_id, stored.new(now_ms), self._discarding(group))
        self._joining.join(group, joiner, turn)
        return turn.outcome()

    def _check_join(self, request: JoinGroupRequest, joiner: Joiner) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not joiner.has_valid_session(self._settings):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if (
            request.member_id != responses.UNKNOWN_MEMBER_ID
            and request.group_id not in self._groups
        ):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _discarding(self, group: ClassicGroup) -> OnFailure:
        """What to do if a new group cannot be stored: it is as if it had never been."""

        def discard(aftermath: Turn, error: ErrorCode) -> None:
            del self._unstored[group.group_id]
            self._rebalancer.answer_all(group, error, aftermath)
            self._rebalancer.forget(group)

        return discard

    def _remove(self, group: ClassicGroup, now_ms: int) -> None:
        self._rebalancer.forget(group)
        group.transition_to(State.DEAD, now_ms)
        del self._groups[group.group_id]

    # -- SyncGroup -----------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, token: object, now_ms: int, version: int) -> Outcome:
        group = self._groups.get(request.group_id)
        error = check_sync(group, request, version)
        if group is None or error is not ErrorCode.NONE:
            return Outcome.reply(token, responses.sync_error(error))
        turn = Turn(now_ms)
        self._syncing.sync(group, request, Parked(token, version), turn)
        return turn.outcome()

    # -- Heartbeat -----------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        return Outcome.reply(token, responses.heartbeat(self._beat(request, now_ms)))

    def _beat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalancer.refresh(group, group.members[request.member_id], now_ms)
        if group.state is State.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # -- LeaveGroup ----------------------------------------------------------------------------

    def leave(self, request: LeaveGroupRequest, token: object, now_ms: int) -> Outcome:
        if not request.group_id:
            return Outcome.reply(token, responses.leave_error(ErrorCode.INVALID_GROUP_ID))
        group = self._groups.get(request.group_id)
        if group is None:
            gone = ((member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members)
            return Outcome.reply(token, responses.left(gone))
        turn = Turn(now_ms)
        results = [(member, self._leave(group, member, turn)) for member in request.members]
        if any(error is ErrorCode.NONE for _, error in results) and group.state is not State.EMPTY:
            self._rebalancer.rebalance_or_complete(group, turn)
        turn.reply_if_stored(token, responses.left(results), responses.leave_error)
        return turn.outcome()

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity, turn: Turn) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == responses.UNKNOWN_MEMBER_ID:
            # An administrator removes a static member, known only by its instance id.
            instance_id = leaving.group_instance_id
            static_id = None if instance_id is None else group.static_member_id(instance_id)
            if static_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = static_id
        elif member_id in group.pending_join:
            self._rebalancer.drop_pending(group, member_id)
            return ErrorCode.NONE
        else:
            error = group.check_member(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._rebalancer.drop(group, group.members[member_id], turn)
        return ErrorCode.NONE

    # -- OffsetCommit --------------------------------------------------------------------------

    def validate_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now_ms: int,
        *,
        version: int = 9,
        transactional: bool = False,
    ) -> ErrorCode:
        """Whether offsets may be committed so. A good commit is a sign of life like a heartbeat.

        A group that does not exist takes commits without a generation; it then exists through its
        offsets (``ensure``).
        """
        group = self._groups.get(group_id)
        if group is None:
            return check_commit_to_no_group(generation, version, transactional)
        error = check_commit(group, member_id, instance_id, generation, transactional)
        member = group.members.get(member_id)
        if error is ErrorCode.NONE and member is not None and not transactional:
            self._rebalancer.refresh(group, member, now_ms)
        return error

    def ensure(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group, made if need be: offsets were stored under its name."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=now_ms)
        return group

    # -- administration ------------------------------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription | None:
        group = self._groups.get(group_id)
        return None if group is None else description.describe(group)

    def list(self) -> Iterator[GroupListing]:
        return map(description.listing, self._groups.values())

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and group.is_subscribed(topic)

    def validate_delete(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def delete(self, group_id: str) -> tuple[ErrorCode, Records]:
        """The group goes when the record is replayed."""
        error = self.validate_delete(group_id)
        return error, [_tombstone(group_id)] if error is ErrorCode.NONE else []

    def delete_if_unused(self, group_id: str) -> Records:
        """For a group whose last offset expired: it goes too, unless somebody is about to join."""
        group = self._groups.get(group_id)
        if group is None or group.state is not State.EMPTY or group.pending_join:
            return []
        return [_tombstone(group_id)]

    def validate_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether offsets of topics that nobody is subscribed to may be deleted."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is State.EMPTY or group.uses_consumer_protocol:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    # -- time and loading ----------------------------------------------------------------------

    def on_time(self, now_ms: int, keys: Iterable[ClassicDeadline]) -> Outcome:
        """These deadlines, already taken out of the timeouts, have come."""
        turn = Turn(now_ms)
        for key in keys:
            group = self._groups.get(key.group_id)
            if group is None or key in self._timeouts:
                continue  # an earlier deadline of this turn removed the cause, or set it anew
            if key.kind is DeadlineKind.SESSION:
                self._rebalancer.session_expired(group, key.member_id, turn)
            elif key.kind is DeadlineKind.JOIN:
                self._rebalancer.join_expired(group, turn)
            else:
                self._rebalancer.sync_expired(group, turn)
        return turn.outcome()

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._groups.get(key.group)
        if value is None:
            if group is not None:
                self._remove(group, group.state_timestamp_ms or 0)
            return
        if group is None:
            group = self._unstored.pop(key.group, None) or ClassicGroup(key.group)
            self._groups[key.group] = group
        before = group.members
        group.replay(value)
        for member_id in before:
            if member_id not in group.members:
                self._rebalancer.forget_member(group, member_id)

    def on_loaded(self, now_ms: int) -> Outcome:
        """All records have been replayed: every member has one session to be heard of again."""
        turn = Turn(now_ms)
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalancer.refresh(group, member, now_ms)
            # If the limit was lowered, a rebalance lets everybody commit before some have to go.
            is_full = len(group.members) > self._settings.group_max_size
            if is_full or (group.members and group.is_unsettled):
                self._rebalancer.prepare(group, turn)
        return turn.outcome()

    def adopt(self, group: ClassicGroup, now_ms: int, *, rebalance: bool) -> Outcome:
        """A group that has been something else so far is a classic one from now on."""
        turn = Turn(now_ms)
        self._unstored[group.group_id] = group
        for member in group.members.values():
            self._rebalancer.refresh(group, member, now_ms)
        group.is_unsettled = rebalance
        turn.store(group.group_id, stored.as_it_is(group), self._discarding(group))
        if rebalance:
            self._rebalancer.prepare(group, turn)
        return turn.outcome()

    def release(self, group_id: str, error: ErrorCode, now_ms: int) -> Replies:
        """Answer everything that is parked in a group: it is about to become something else."""
        turn = Turn(now_ms)
        group = self._groups.get(group_id)
        if group is not None:
            self._rebalancer.answer_all(group, error, turn)
        return turn.outcome().replies


def _tombstone(group_id: str) -> Record:
    return tombstone(GroupMetadataKey(group_id))

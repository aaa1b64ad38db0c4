"""When a classic group rebalances, and who is answered then.

The rules are Kafka's (``GroupMetadataManager``, its part for classic groups). Where Kafka forgets a
parked request, because a second one from the same member took its place or the member was removed,
it is answered here: answers leave a connection in the order of its requests, so one that never
comes would hold up all behind it.
"""

from __future__ import annotations

from typing import Any

from moldau.errors import ErrorCode
from moldau.groups.classic import deadlines, responses, stored
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember, Parked
from moldau.groups.classic.states import ClassicGroupState as State
from moldau.groups.classic.turn import Turn
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import RETRY_MS, Timeouts


class Rebalancer:
    """Moves groups through their states and keeps their deadlines."""

    def __init__(self, settings: GroupSettings, timeouts: Timeouts[Any]) -> None:
        self._settings = settings
        self._timeouts = timeouts

    # -- sessions ------------------------------------------------------------------------------

    def refresh(
        self, group: ClassicGroup, member: ClassicMember, now_ms: int, after_ms: int | None = None
    ) -> None:
        """The member was heard of, or is about to hear from us: its session starts anew."""
        delay_ms = member.session_timeout_ms if after_ms is None else after_ms
        self._timeouts.set(deadlines.session(group.group_id, member.member_id), now_ms + delay_ms)

    def expect(self, group: ClassicGroup, member_id: str, now_ms: int, within_ms: int) -> None:
        """Somebody was given a member id and has to come back with it in time."""
        self._timeouts.set(deadlines.session(group.group_id, member_id), now_ms + within_ms)

    def session_expired(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_join:
                self.drop_pending(group, member_id)
                self.complete_if_all_joined(group, turn)
        elif not member.is_excused:
            self.drop(group, member, turn)
            if group.state is State.PREPARING_REBALANCE:
                self.complete_if_all_joined(group, turn)
            else:
                self.rebalance_or_complete(group, turn)

    # -- departures ----------------------------------------------------------------------------

    def drop(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        """Remove a member. If it still waits it is alive after all, and may join again."""
        parked = group.park_join(member, None)
        if parked is not None:
            turn.reply(
                parked.token,
                responses.join_error(ErrorCode.UNKNOWN_MEMBER_ID, version=parked.version),
            )
        self._answer_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, turn)
        self.drop_pending(group, member.member_id)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        self.forget_member(group, member_id)
        group.remove(member_id)

    def forget_member(self, group: ClassicGroup, member_id: str) -> None:
        """The member is gone: it is not waited for any more."""
        self._timeouts.cancel(deadlines.session(group.group_id, member_id))

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone: nothing is waited for any more."""
        for member_id in (*group.members, *group.pending_join):
            self.forget_member(group, member_id)
        self._timeouts.cancel(deadlines.join(group.group_id))
        self._timeouts.cancel(deadlines.sync(group.group_id))

    # -- parked requests -----------------------------------------------------------------------

    def park_join(
        self, group: ClassicGroup, member: ClassicMember, parked: Parked, turn: Turn
    ) -> None:
        superseded = group.park_join(member, parked)
        if superseded is not None:
            turn.reply(
                superseded.token,
                responses.join_error(
                    ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, version=superseded.version
                ),
            )

    def park_sync(self, member: ClassicMember, parked: Parked, turn: Turn) -> None:
        self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn)
        member.parked_sync = parked

    @staticmethod
    def _answer_sync(member: ClassicMember, error: ErrorCode, turn: Turn) -> bool:
        parked = member.parked_sync
        if parked is None:
            return False
        member.parked_sync = None
        turn.reply(parked.token, responses.sync_error(error))
        return True

    def answer_all(self, group: ClassicGroup, error: ErrorCode, turn: Turn) -> None:
        """Answer every parked request of the group with an error."""
        for member in group.members.values():
            parked = group.park_join(member, None)
            if parked is not None:
                turn.reply(
                    parked.token,
                    responses.join_error(error, member.member_id, version=parked.version),
                )
            self._answer_sync(member, error, turn)

    def fence(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        """A static member is being replaced: whatever the old one waits for ends here."""
        parked = group.park_join(member, None)
        if parked is not None:
            turn.reply(
                parked.token,
                responses.join_error(
                    ErrorCode.FENCED_INSTANCE_ID,
                    member.member_id,
                    version=parked.version,
                ),
            )
        self._answer_sync(member, ErrorCode.FENCED_INSTANCE_ID, turn)
        self.forget_member(group, member.member_id)

    # -- the join phase ------------------------------------------------------------------------

    def rebalance_or_complete(self, group: ClassicGroup, turn: Turn) -> None:
        if group.can_rebalance:
            self.prepare(group, turn)
        else:
            self.complete_after_initial_delay(group, turn)

    def prepare(self, group: ClassicGroup, turn: Turn) -> None:
        """Start a rebalance: everybody has to join again."""
        if group.state is State.COMPLETING_REBALANCE:
            self.withdraw_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, turn)
        group.pending_sync.clear()
        self._timeouts.cancel(deadlines.sync(group.group_id))
        is_initial = group.state is State.EMPTY
        group.transition_to(State.PREPARING_REBALANCE, turn.now_ms)
        if is_initial:
            # More members are probably about to start: wait, rather than rebalance for each.
            delay_ms = self._settings.group_initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._timeouts.set(deadlines.join(group.group_id), turn.now_ms + delay_ms)
        elif group.has_all_members_joined:
            self.complete_join(group, turn)
        else:
            self._await_joins(group, turn)

    def _await_joins(self, group: ClassicGroup, turn: Turn) -> None:
        self._timeouts.set(deadlines.join(group.group_id), turn.now_ms + group.rebalance_timeout_ms)

    def complete_after_initial_delay(self, group: ClassicGroup, turn: Turn) -> None:
        """Go on if everybody is there, but let an initial delay take its time."""
        if group.initial_delay_ms is None:
            self.complete_if_all_joined(group, turn)

    def complete_if_all_joined(self, group: ClassicGroup, turn: Turn) -> None:
        if group.state is State.PREPARING_REBALANCE and group.has_all_members_joined:
            self.complete_join(group, turn)

    def join_expired(self, group: ClassicGroup, turn: Turn) -> None:
        """The time to join is over, or one piece of the initial delay."""
        if group.state is not State.PREPARING_REBALANCE:
            return
        delay_ms = group.initial_delay_ms
        if delay_ms is not None and group.new_member_added and group.initial_remaining_ms:
            group.new_member_added = False
            next_ms = min(
                self._settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms
            )
            group.initial_delay_ms = next_ms
            group.initial_remaining_ms = max(group.initial_remaining_ms - delay_ms, 0)
            self._timeouts.set(deadlines.join(group.group_id), turn.now_ms + next_ms)
        else:
            self.complete_join(group, turn)

    def complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin the next generation with those who have joined.

        Static members stay although they did not join: they may be restarting, and only their
        session decides about them.
        """
        self._timeouts.cancel(deadlines.join(group.group_id))
        missing = [m for m in group.members.values() if m.parked_join is None and not m.is_static]
        for member in missing:
            self.drop(group, member, turn)
        if group.members and not group.elect_joined_leader():
            self._await_joins(group, turn)
            return
        group.initial_delay_ms = None
        if not group.members:
            self._store_empty(group, turn)
            return
        group.next_generation(turn.now_ms)
        for member in group.members.values():
            parked = group.park_join(member, None)
            if parked is not None:
                members = group.members_for(member.member_id)
                turn.reply(parked.token, responses.joined(group, member.member_id, members=members))
            self.refresh(group, member, turn.now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._timeouts.set(deadlines.sync(group.group_id), turn.now_ms + group.rebalance_timeout_ms)

    def _store_empty(self, group: ClassicGroup, turn: Turn) -> None:
        """Nobody is left. Until that is stored the group goes on preparing for whoever may come."""
        if turn.is_storing(group.group_id):
            return  # two deadlines of the same turn came to the same end
        key, retry_ms = deadlines.join(group.group_id), turn.now_ms + RETRY_MS
        turn.store(
            group.group_id,
            stored.without_members(group, turn.now_ms),
            lambda _turn, _error: self._timeouts.set(key, retry_ms),
        )

    # -- the sync phase ------------------------------------------------------------------------

    def note_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timeouts.cancel(deadlines.sync(group.group_id))

    def withdraw_assignment(self, group: ClassicGroup, error: ErrorCode, turn: Turn) -> None:
        """There will be no assignment in this generation; those who wait for it are told why."""
        for member in group.members.values():
            member.assignment = b""
            if self._answer_sync(member, error, turn):
                self.refresh(group, member, turn.now_ms)

    def sync_expired(self, group: ClassicGroup, turn: Turn) -> None:
        """Members that joined but never asked for their assignment are gone."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
            return
        for member in [group.members[member_id] for member_id in sorted(group.pending_sync)]:
            self.drop(group, member, turn)
        self.prepare(group, turn)

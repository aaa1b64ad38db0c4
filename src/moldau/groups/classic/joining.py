"""JoinGroup: who is let in, under which member id, and whether that starts a rebalance."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.join_group.v9.request import JoinGroupRequest

from moldau.errors import ErrorCode
from moldau.groups.classic import responses, stored
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember, JoinedMember, Parked, Protocols
from moldau.groups.classic.rebalance import Rebalancer
from moldau.groups.classic.states import ClassicGroupState as State
from moldau.groups.classic.turn import Turn
from moldau.groups.client_info import ClientInfo
from moldau.groups.settings import GroupSettings
from moldau.wire.times import milliseconds

_OWN_REBALANCE_TIMEOUT_VERSION = 1
"""Before, the session timeout was also the time to rejoin."""
_MEMBER_ID_REQUIRED_VERSION = 4
"""From here on a new member first fetches an id: a lost answer leaves no ghost (KIP-394)."""
_SKIP_ASSIGNMENT_VERSION = 9
"""From here on a returning static leader can be told to keep the assignment (KIP-814)."""
_NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""How long a first JoinGroup may stay parked; its sender has no id to send heartbeats with."""


class Joiner:
    """One JoinGroup, checked against the settings, on its way into a group."""

    __slots__ = (
        "client",
        "instance_id",
        "member_id",
        "parked",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "version",
    )

    def __init__(
        self, request: JoinGroupRequest, token: object, client: ClientInfo, version: int
    ) -> None:
        self.member_id = request.member_id
        self.instance_id = request.group_instance_id
        self.protocol_type = request.protocol_type
        self.protocols: Protocols = tuple(
            (protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        )
        self.session_timeout_ms = milliseconds(request.session_timeout)
        self.rebalance_timeout_ms = (
            self.session_timeout_ms
            if version < _OWN_REBALANCE_TIMEOUT_VERSION
            else milliseconds(request.rebalance_timeout)
        )
        self.client = client
        self.version = version
        self.parked = Parked(token, version)

    @property
    def needs_member_id(self) -> bool:
        """Whether it has to ask for a member id first."""
        return (
            self.member_id == responses.UNKNOWN_MEMBER_ID
            and self.instance_id is None
            and self.version >= _MEMBER_ID_REQUIRED_VERSION
        )

    def has_valid_session(self, settings: GroupSettings) -> bool:
        return (
            settings.group_min_session_timeout_ms
            <= self.session_timeout_ms
            <= settings.group_max_session_timeout_ms
        )

    def fits(self, group: ClassicGroup) -> bool:
        return group.supports(self.protocol_type, [name for name, _ in self.protocols])

    def as_member(self, member_id: str) -> ClassicMember:
        return ClassicMember(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client.client_id,
            client_host=self.client.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            is_new=True,
        )


class Joining:
    """Lets members into groups. ``new_member_id`` makes an id that begins with its argument."""

    def __init__(
        self,
        settings: GroupSettings,
        rebalancer: Rebalancer,
        new_member_id: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._rebalancer = rebalancer
        self._new_member_id = new_member_id

    def join(self, group: ClassicGroup, joiner: Joiner, turn: Turn) -> None:
        if not self._has_room(group, joiner.member_id):
            self._turn_away(group, joiner, turn)
        elif not joiner.fits(group):
            self._refuse(joiner, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, turn)
        elif joiner.member_id == responses.UNKNOWN_MEMBER_ID:
            self._join_new(group, joiner, turn)
        elif joiner.member_id in group.pending_join and joiner.instance_id is None:
            self._add(group, joiner, joiner.member_id, turn)
        else:
            self._rejoin(group, joiner, turn)

    # -- room ----------------------------------------------------------------------------------

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._settings.group_max_size
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            # Those who wait are counted, not the members: if the limit was lowered, the last ones
            # to rejoin are those who have to go.
            return member_id in group.awaiting_join or len(group.awaiting_join) < limit
        return member_id in group.members or len(group.members) < limit

    def _turn_away(self, group: ClassicGroup, joiner: Joiner, turn: Turn) -> None:
        member = group.members.get(joiner.member_id)
        if member is not None:
            self._rebalancer.drop(group, member, turn)
        elif joiner.member_id in group.pending_join:
            self._rebalancer.drop_pending(group, joiner.member_id)
        turn.reply(
            joiner.parked.token,
            responses.join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, version=joiner.version),
        )
        self._rebalancer.complete_after_initial_delay(group, turn)

    @staticmethod
    def _refuse(joiner: Joiner, error: ErrorCode, turn: Turn) -> None:
        turn.reply(
            joiner.parked.token,
            responses.join_error(error, joiner.member_id, version=joiner.version),
        )

    # -- somebody without a member id -----------------------------------------------------------

    def _join_new(self, group: ClassicGroup, joiner: Joiner, turn: Turn) -> None:
        if joiner.instance_id is not None:
            member_id = self._new_member_id(joiner.instance_id)
            existing = group.static_member_id(joiner.instance_id)
            if existing is None:
                self._add(group, joiner, member_id, turn)
            else:
                self._replace_static(group, group.members[existing], joiner, member_id, turn)
            return
        member_id = self._new_member_id(joiner.client.client_id)
        if not joiner.needs_member_id:
            self._add(group, joiner, member_id, turn)
            return
        group.pending_join.add(member_id)
        self._rebalancer.expect(group, member_id, turn.now_ms, joiner.session_timeout_ms)
        turn.reply(
            joiner.parked.token,
            responses.join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, version=joiner.version),
        )

    def _add(self, group: ClassicGroup, joiner: Joiner, member_id: str, turn: Turn) -> None:
        if group.initial_delay_ms is not None:
            group.new_member_added = True
        member = joiner.as_member(member_id)
        group.add(member, joiner.parked)
        self._rebalancer.refresh(group, member, turn.now_ms, _NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalancer.rebalance_or_complete(group, turn)

    # -- a static member that comes back ---------------------------------------------------------

    def _replace_static(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        joiner: Joiner,
        member_id: str,
        turn: Turn,
    ) -> None:
        """A restarted process takes the place of its former self, which is fenced from now on."""
        offers = {member.member_id: joiner.protocols}
        if group.state is State.STABLE and group.select_protocol(offers) == group.protocol:
            self._keep_assignment(group, member, joiner, member_id, turn)
            return
        self._rebalancer.fence(group, member, turn)
        member.is_new = False
        group.rename_static(member, member_id)
        group.update(
            member, joiner.protocols, joiner.rebalance_timeout_ms, joiner.session_timeout_ms
        )
        self._rebalancer.refresh(group, member, turn.now_ms)
        group.park_join(member, joiner.parked)
        # In COMPLETING_REBALANCE the leader may know the member by its old id: start over.
        self._rebalancer.rebalance_or_complete(group, turn)

    def _keep_assignment(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        joiner: Joiner,
        member_id: str,
        turn: Turn,
    ) -> None:
        """The group stays stable; only the new member id has to be stored."""
        value = stored.with_returned(group, member, joiner.as_member(member_id))
        group.returning[member_id] = joiner.protocols
        self._rebalancer.expect(group, member_id, turn.now_ms, joiner.session_timeout_ms)

        def stay_as_before(_aftermath: Turn, _error: ErrorCode) -> None:
            group.returning.clear()
            self._rebalancer.forget_member(group, member_id)

        turn.store(group.group_id, value, stay_as_before)
        if joiner.version >= _SKIP_ASSIGNMENT_VERSION:
            is_leader = value.leader == member_id
            members: list[JoinedMember] = [
                (other.member_id, other.group_instance_id, other.subscription)
                for other in (value.members if is_leader else ())
            ]
            response = responses.joined(
                value, member_id, members=members, skip_assignment=is_leader
            )
        else:
            # A leader that cannot skip the assignment is told that its former self still leads, so
            # that it takes itself for a follower and only asks for its assignment.
            response = responses.joined(value, member_id, leader=group.leader)
        turn.reply_if_stored(
            joiner.parked.token,
            response,
            lambda error: responses.joined(group, responses.UNKNOWN_MEMBER_ID, error=error),
        )

    # -- a member that joins again ---------------------------------------------------------------

    def _rejoin(self, group: ClassicGroup, joiner: Joiner, turn: Turn) -> None:
        error = group.check_member(joiner.member_id, joiner.instance_id)
        if error is not ErrorCode.NONE:
            self._refuse(joiner, error, turn)
            return
        member = group.members[joiner.member_id]
        if group.state is State.PREPARING_REBALANCE or self._brings_change(group, member, joiner):
            group.update(
                member, joiner.protocols, joiner.rebalance_timeout_ms, joiner.session_timeout_ms
            )
            self._rebalancer.park_join(group, member, joiner.parked, turn)
            self._rebalancer.rebalance_or_complete(group, turn)
        else:
            # Nothing new: it lost the answer, or wants to go on. The current generation will do.
            members = group.members_for(member.member_id)
            turn.reply(
                joiner.parked.token, responses.joined(group, member.member_id, members=members)
            )

    @staticmethod
    def _brings_change(group: ClassicGroup, member: ClassicMember, joiner: Joiner) -> bool:
        """Whether it is a reason to rebalance that this member joins again.

        In a stable group the leader's wish always is: it may have seen that topics changed.
        """
        if group.state is State.STABLE and group.leader == member.member_id:
            return True
        return member.protocols != joiner.protocols

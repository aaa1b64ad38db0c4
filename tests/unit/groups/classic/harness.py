"""Runs the classic groups of a shard as a broker does: a log, a clock, answers by token."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import count
from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.groups.stored_state import check_classic_groups, stored_classic_groups

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroup, ClassicGroups
from moldau.groups.client_info import ClientInfo
from moldau.groups.records import from_record
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.outcome import Outcome, Record, Reply
from moldau.wire.make import make
from moldau.wire.stored.group_records import GroupMetadataKey

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"r"),)

Protocols = Iterable[tuple[str, bytes]]


def milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


class Broker:
    """Tokens are the numbers of the requests; ``answers`` holds what was sent."""

    def __init__(self, settings: GroupSettings | None = None, *, now_ms: int = 1_000_000) -> None:
        self.settings = settings or GroupSettings()
        self.now_ms = now_ms
        self.log: list[Record] = []
        self.answers: dict[int, Any] = {}
        self.fail_with: ErrorCode | None = None
        self.requests = 0
        """How many were sent; also the token of the last one."""
        self._ids = count(1)
        self.timeouts: Timeouts[Any] = Timeouts()
        self._shadow = self._fresh()
        self.groups = self._fresh()
        self.groups.on_loaded(self.now_ms)

    def _fresh(self) -> ClassicGroups:
        self.timeouts = Timeouts()
        return ClassicGroups(
            self.settings, self.timeouts, lambda prefix: f"{prefix}-{next(self._ids)}"
        )

    # -- what a broker does --------------------------------------------------------------------

    def apply(self, outcome: Outcome) -> None:
        if outcome.records and self.fail_with is not None:
            self.send(outcome.failed(self.fail_with))
        else:
            for record in outcome.records:
                self.log.append(record)
                replay(self.groups, record)
                replay(self._shadow, record)
            self.send(outcome.replies)
        if outcome.records:
            self.check_stored()

    def check_stored(self) -> None:
        """Groups that have only read the log are what these take for stored."""
        assert stored_classic_groups(self._shadow) == stored_classic_groups(self.groups)
        check_classic_groups(self.groups)

    def send(self, replies: Iterable[Reply]) -> None:
        for token, response in replies:
            assert isinstance(token, int)
            assert token not in self.answers, "a request is answered once"
            self.answers[token] = response

    def advance(self, by_ms: int) -> None:
        """Let time pass; what falls due on the way happens in order."""
        end_ms = self.now_ms + by_ms
        while (at_ms := self.timeouts.next()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.apply(self.groups.on_time(self.now_ms, self.timeouts.due(self.now_ms)))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Lose everything but the log; whoever waits is sent away."""
        for listing in self.groups.list():
            self.send(self.groups.release(listing.group_id, ErrorCode.NOT_COORDINATOR, self.now_ms))
        self.groups = self._fresh()
        for record in self.log:
            replay(self.groups, record)
        self.apply(self.groups.on_loaded(self.now_ms))

    def new_token(self) -> int:
        self.requests += 1
        return self.requests

    # -- requests --------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "app",
        version: int = 9,
    ) -> int:
        token = self.new_token()
        request = make(
            JoinGroupRequest,
            group_id=group_id,
            session_timeout=milliseconds(session_ms),
            rebalance_timeout=milliseconds(rebalance_ms),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols
            ),
            reason=None,
        )
        client = ClientInfo(client_id, "/127.0.0.1")
        self.apply(self.groups.join(request, token, self.now_ms, client, version))
        return token

    def sync(
        self,
        member_id: str,
        generation: int,
        parts: dict[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
    ) -> int:
        token = self.new_token()
        request = make(
            SyncGroupRequest,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=name, assignment=part)
                for name, part in (parts or {}).items()
            ),
        )
        self.apply(self.groups.sync(request, token, self.now_ms, version))
        return token

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
    ) -> ErrorCode:
        token = self.new_token()
        request = make(
            HeartbeatRequest,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        self.apply(self.groups.heartbeat(request, token, self.now_ms))
        error = self.answers[token].error_code
        assert isinstance(error, ErrorCode)
        return error

    def leave(self, *members: tuple[str, str | None], group_id: str = GROUP) -> Any:
        """The answer to a LeaveGroup of (member id, instance id) pairs."""
        token = self.new_token()
        request = make(
            LeaveGroupRequest,
            group_id=group_id,
            members=tuple(
                MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in members
            ),
        )
        self.apply(self.groups.leave(request, token, self.now_ms))
        return self.answers[token]

    def commit(
        self, member_id: str, generation: int, instance_id: str | None = None, **options: Any
    ) -> ErrorCode:
        return self.groups.validate_commit(
            GROUP, member_id, instance_id, generation, self.now_ms, **options
        )

    # -- looking -------------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.get(GROUP)
        assert group is not None
        return group

    def error(self, token: int) -> ErrorCode:
        error = self.answers[token].error_code
        assert isinstance(error, ErrorCode)
        return error

    # -- shortcuts to a state ----------------------------------------------------------------------

    def new_member(self, **options: Any) -> tuple[str, int]:
        """A dynamic member through both rounds: its id, and the token of its parked JoinGroup."""
        first = self.answers[self.join(**options)]
        assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **options)

    def completing(self, members: int = 2, **options: Any) -> list[str]:
        """A group of so many members that waits for its leader, who comes first."""
        joined = [self.new_member(**options) for _ in range(members)]
        self.advance(self.settings.group_initial_rebalance_delay_ms * 2)
        assert all(self.error(token) is ErrorCode.NONE for _, token in joined)
        return [member_id for member_id, _ in joined]

    def stable(self, members: int = 2, **options: Any) -> list[str]:
        ids = self.completing(members, **options)
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: list[str], generation: int | None = None) -> None:
        generation = self.group.generation if generation is None else generation
        followers = [self.sync(member, generation) for member in ids[1:]]
        parts = {member: f"part of {member}".encode() for member in ids}
        leader = self.sync(ids[0], generation, parts)
        assert all(self.error(token) is ErrorCode.NONE for token in [leader, *followers])


def replay(groups: ClassicGroups, record: Record) -> None:
    decoded = from_record(*record)
    assert decoded is not None
    key, value = decoded
    assert isinstance(key, GroupMetadataKey)
    groups.replay(key, value)  # type: ignore[arg-type]  # the value is of the key's kind

"""The deadlines of groups under the consumer protocol and of their members.

They are not in the log: a coordinator that loads a group starts them anew.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.member import STATIC_LEAVE_EPOCH, Member, MemberState
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import RETRY_MS, Timeouts


class MemberDeadline(Enum):
    SESSION = "consumer session"
    """No heartbeat came for a session timeout: the member is fenced."""
    REBALANCE = "consumer rebalance"
    """The member did not give up partitions within its rebalance timeout: it is fenced."""
    JOIN = "classic member join"
    """A classic member was told to join again and did not within its rebalance timeout."""
    SYNC = "classic member sync"
    """A classic member joined and did not ask for its assignment within its rebalance timeout."""


class MemberTimeout(NamedTuple):
    """The key of a deadline among all deadlines of a shard."""

    kind: MemberDeadline
    group_id: str
    member_id: str


class PatternResolution(NamedTuple):
    """The key of the time at which a pattern of a group is matched against the topics again.

    A pattern that a member has always has one. It is matched in the background and not in a
    heartbeat, so that a member hears of the topics with its next one, as it does from Kafka.
    """

    group_id: str
    regex: str


GroupTimeout: TypeAlias = MemberTimeout | PatternResolution

TOPICS_SETTLE_MS: Final = 1000
"""Topics are seldom made alone: patterns are matched once for all that come within this time."""


class GroupTimers:
    def __init__(self, settings: GroupSettings, timeouts: Timeouts[GroupTimeout]) -> None:
        self._settings = settings
        self._timeouts = timeouts

    def heard(self, group_id: str, member: Member, now_ms: int, *, moved: bool = False) -> None:
        """A member was heard of. ``moved``: its reconciliation went on, or began."""
        timeout_ms = self._settings.of_group(group_id).consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._set(MemberDeadline.SESSION, group_id, member, now_ms + timeout_ms)
        if moved and _is_revoking(member):
            self._set(
                MemberDeadline.REBALANCE, group_id, member, now_ms + member.rebalance_timeout_ms
            )

    def await_join(self, group_id: str, member: Member, now_ms: int) -> None:
        """A classic member has been told to join again, perhaps not for the first time."""
        key = MemberTimeout(MemberDeadline.JOIN, group_id, member.member_id)
        self._timeouts.set_if_absent(key, now_ms + member.rebalance_timeout_ms)

    def joined(self, group_id: str, member: Member, now_ms: int) -> None:
        """A classic member has joined, and has to ask for its assignment."""
        self._timeouts.cancel(MemberTimeout(MemberDeadline.JOIN, group_id, member.member_id))
        self._set(MemberDeadline.SYNC, group_id, member, now_ms + member.rebalance_timeout_ms)

    def synced(self, group_id: str, member: Member) -> None:
        self._timeouts.cancel(MemberTimeout(MemberDeadline.SYNC, group_id, member.member_id))

    def resolve_now(self, group_id: str, regex: str, now_ms: int) -> None:
        """A member has brought a pattern, or it is not known how old its topics are."""
        self._timeouts.set(PatternResolution(group_id, regex), now_ms)

    def keep_resolving(self, group_id: str, regex: str, now_ms: int) -> None:
        """A member has a pattern, perhaps the first that has it."""
        self._timeouts.set_if_absent(PatternResolution(group_id, regex), now_ms)

    def resolve_soon(self, group_id: str, regex: str, now_ms: int) -> None:
        """There are other topics than there were."""
        key, at_ms = PatternResolution(group_id, regex), now_ms + TOPICS_SETTLE_MS
        deadline = self._timeouts.deadline(key)
        if deadline is None or deadline > at_ms:
            self._timeouts.set(key, at_ms)

    def resolved(self, key: PatternResolution, now_ms: int) -> None:
        interval_ms = self._settings.group_consumer_regex_refresh_interval_ms
        self._timeouts.set(key, now_ms + interval_ms)

    def forget_pattern(self, group_id: str, regex: str) -> None:
        self._timeouts.cancel(PatternResolution(group_id, regex))

    def retry(self, key: GroupTimeout, now_ms: int) -> None:
        self._timeouts.set(key, now_ms + RETRY_MS)

    def drop_settled(self, group: ConsumerGroup, member_id: str) -> None:
        """Forget what was due for a member that is gone, or that has done it."""
        member = group.members.get(member_id)
        settled = [MemberDeadline.SESSION] if member is None else []
        if member is None or not _is_revoking(member):
            settled.append(MemberDeadline.REBALANCE)
        if member is None or not member.uses_classic_protocol:
            settled += [MemberDeadline.JOIN, MemberDeadline.SYNC]
        for kind in settled:
            self._timeouts.cancel(MemberTimeout(kind, group.group_id, member_id))

    def _set(self, kind: MemberDeadline, group_id: str, member: Member, at_ms: int) -> None:
        self._timeouts.set(MemberTimeout(kind, group_id, member.member_id), at_ms)


def is_overdue(member: Member, key: MemberTimeout) -> bool:
    """Whether a deadline that has come still means something for its member."""
    return key.kind is not MemberDeadline.REBALANCE or _is_revoking(member)


def _is_revoking(member: Member) -> bool:
    """Classic members give partitions up by joining again, for which they have other deadlines."""
    return (
        member.state is MemberState.UNREVOKED_PARTITIONS
        and member.epoch != STATIC_LEAVE_EPOCH
        and not member.uses_classic_protocol
    )

"""All consumer groups of a shard: the door to this package.

Every request, deadline and change of topics comes in here and leaves as an ``Outcome``. What a
group is changes only in ``replay``; besides that there are deadlines, and a mark on groups whose
topics may have changed, neither of which is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from kio.schema.consumer_group_describe.v1.response import DescribedGroup
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.list_groups.v5.response import ListedGroup

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer import journal, messages, offset_validation
from moldau.groups.consumer.describe import describe, describe_missing, listed
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.heartbeat import (
    Change,
    Heartbeats,
    is_quiet,
    static_member,
    unknown_member,
)
from moldau.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Member
from moldau.groups.consumer.timers import (
    GroupTimeout,
    GroupTimers,
    MemberTimeout,
    PatternResolution,
    is_overdue,
)
from moldau.groups.records import from_record
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.groups.topics import TopicView
from moldau.outcome import Outcome, Record, Reply
from moldau.wire.stored import group_records as r

Downgrade = Callable[[ConsumerGroup, Collection[str], int], Outcome | None]
"""Makes a group classic that these members leave, if only classic ones remain and it may be so."""

RESOLVING_INTERVAL_MS: Final = 100
"""When a member comes back to hear of the topics of its pattern. Kafka lets it wait as long as for
any other heartbeat, which is 5 seconds without records for consumers on librdkafka."""
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""Trying again at once would not help: other topics may."""

logger: Final = logging.getLogger(__name__)


def never(_group: ConsumerGroup, _leaving: Collection[str], _now_ms: int) -> None:
    """No group ever becomes a classic one."""


class ConsumerGroups:
    """The groups of one ``__consumer_offsets`` partition that use the consumer protocol."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicView,
        timeouts: Timeouts[GroupTimeout],
        new_member_id: Callable[[], str],
        downgrade: Downgrade = never,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._downgrade = downgrade
        self._groups: dict[str, ConsumerGroup] = {}
        self.new_member_id = new_member_id
        self.timers = GroupTimers(settings, timeouts)
        self.heartbeats = Heartbeats(settings, topics)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    def group_ids(self) -> Collection[str]:
        return self._groups.keys()

    def member(
        self, group_id: str, member_id: str, instance_id: str | None = None
    ) -> Member | None:
        """A static member that comes back has another member id, or none yet."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        member = group.members.get(member_id)
        if member is None and instance_id is not None:
            member = group.static_member(instance_id)
        return member

    def footprints(self, has_offsets: Callable[[str], bool]) -> Iterator[int]:
        """What members take, in bytes, and groups without members and offsets."""
        for group in tuple(self._groups.values()):
            if group.members or not has_offsets(group.group_id):
                yield from group.footprints()

    # ConsumerGroupHeartbeat

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
        upgrade: Sequence[Record] = (),
    ) -> Outcome:
        """A member joins (epoch 0), lives, leaves (-1), or leaves for a while (-2).

        ``upgrade``: the records that make the group, which has been a classic one so far. They are
        not replayed yet, and belong into the log before those of the outcome, if there are any.
        """
        try:
            messages.check(request, version, self._settings.group_consumer_assignors)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(request, token, now_ms)
            return self._beat(request, token, now_ms, client, upgrade)
        except KafkaError as error:
            return Outcome.reply(token, messages.error_response(error.code, error.message))

    def _beat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        upgrade: Sequence[Record],
    ) -> Outcome:
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is None:
            if request.member_epoch != 0:
                message = f"Consumer group {group_id} not found."
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
            group = _made_of(group_id, upgrade)  # replaying the records is what adds it
            for member in group.members.values():
                self.timers.heard(group_id, member, now_ms)
        member_id = request.member_id
        known = group.members.get(member_id)
        if known is None:
            self.check_room(group)
            member_id = member_id or self.new_member_id()
        elif is_quiet(group, known, request, client):
            self.timers.heard(group_id, known, now_ms)
            interval_ms = self._settings.of_group(group_id).consumer_heartbeat_interval_ms
            answer = messages.response(member_id, known.epoch, interval_ms, None)
            return Outcome.reply(token, answer)
        change = self.heartbeats.beat(group, request, member_id, client, now_ms)
        undo_refresh = self.after_change(group, change, now_ms)
        tell = change.assignment_changed or messages.is_full(request)
        interval_ms = self._settings.of_group(group_id).consumer_heartbeat_interval_ms
        regex = request.subscribed_topic_regex
        if regex and group.awaits_topics(change.member):
            interval_ms = min(interval_ms, RESOLVING_INTERVAL_MS)
            self.timers.resolve_now(group_id, regex, now_ms)
        answer = messages.response(
            member_id, change.member.epoch, interval_ms, change.member.assigned if tell else None
        )

        def failed(code: ErrorCode) -> list[Reply]:
            undo_refresh()
            return [Reply(token, messages.error_response(code))]

        return Outcome(change.records, [Reply(token, answer)], failed)

    def after_change(self, group: ConsumerGroup, change: Change, now_ms: int) -> Callable[[], None]:
        """Set the deadlines of a member that was heard of; returns how to ask for topics again."""
        refreshed = group.refresh_requested
        group.refresh_requested = False
        self.timers.heard(group.group_id, change.member, now_ms, moved=change.moved)
        if change.member.subscribed_regex:
            self.timers.keep_resolving(group.group_id, change.member.subscribed_regex, now_ms)

        def undo() -> None:
            group.refresh_requested = group.refresh_requested or refreshed

        return undo

    def check_room(self, group: ConsumerGroup) -> None:
        limit = self._settings.group_consumer_max_size
        if len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _leave(self, request: ConsumerGroupHeartbeatRequest, token: object, now_ms: int) -> Outcome:
        group = self._groups.get(request.group_id)
        if group is None:
            message = f"Group {request.group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise unknown_member(group.group_id, request.member_id)
        else:
            member = static_member(group, request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            outcome = Outcome([journal.current_assignment(group.group_id, _away(member))])
        else:
            outcome = self.remove(group, {member.member_id}, now_ms)
        answer = messages.response(member.member_id, request.member_epoch, 0, None)
        outcome.extend(
            Outcome(
                replies=[Reply(token, answer)],
                on_failure=lambda code: [Reply(token, messages.error_response(code))],
            )
        )
        return outcome

    def remove(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> Outcome:
        """Members leave, or are taken for dead; perhaps only classic ones remain."""
        classic = self._downgrade(group, member_ids, now_ms)
        return classic or Outcome(self.heartbeats.fence(group, member_ids))

    # Deadlines and topics

    def on_time(self, now_ms: int, keys: Iterable[MemberTimeout]) -> Outcome:
        """Fence the members whose deadlines have come. Keys that no longer matter are ignored."""
        due: dict[str, dict[str, MemberTimeout]] = {}
        for key in keys:
            group = self._groups.get(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if member is not None and is_overdue(member, key):
                due.setdefault(key.group_id, {})[key.member_id] = key
        outcome = Outcome()
        for group_id, members in due.items():
            outcome.extend(self.remove(self._groups[group_id], members, now_ms))

        def failed(_code: ErrorCode) -> list[Reply]:
            for members in due.values():
                for key in members.values():
                    self.timers.retry(key, now_ms)
            return []

        if due:
            outcome.extend(Outcome(on_failure=failed))
        return outcome

    def resolve_patterns(self, now_ms: int, keys: Sequence[PatternResolution]) -> Outcome:
        """Match the first pattern that is due; the others have their turn next."""
        first, *others = keys
        self.postpone(now_ms, others)
        group = self._groups.get(first.group_id)
        if group is None or not group.subscribers(first.regex):
            return Outcome()
        self.timers.resolved(first, now_ms)

        def failed(code: ErrorCode) -> list[Reply]:
            if code in TOO_LARGE:
                logger.error(
                    "the topics that the pattern %r of group %s matches are too many for a record "
                    "(%s): its members get none of them",
                    first.regex,
                    first.group_id,
                    code.name,
                )
            else:
                self.timers.retry(first, now_ms)
            return []

        return Outcome(self.heartbeats.resolve(group, first.regex, now_ms), on_failure=failed)

    def postpone(self, now_ms: int, keys: Iterable[PatternResolution]) -> None:
        """Match these patterns in a turn of their own."""
        for key in keys:
            self.timers.resolve_now(*key, now_ms)

    def on_topics_changed(self, names: Collection[str], now_ms: int) -> Outcome:
        """Topics appeared, went, or grew: the next heartbeat of a group concerned looks at them."""
        changed = frozenset(names)
        for group in self._groups.values():
            for regex in group.patterns:
                self.timers.resolve_soon(group.group_id, regex, now_ms)
            if not changed.isdisjoint(group.subscribed):
                group.refresh_requested = True
        return Outcome()

    def on_loaded(self, now_ms: int) -> Outcome:
        """The log has been replayed: every member has a whole session to make itself heard."""
        for group in self._groups.values():
            group.refresh_requested = True
            for regex in group.patterns:
                self.timers.resolve_now(group.group_id, regex, now_ms)
            for member in group.members.values():
                self.timers.heard(group.group_id, member, now_ms, moved=True)
        return Outcome()

    # Administration

    def describe(
        self, group_ids: Iterable[str], missing_because: str = "not found"
    ) -> list[DescribedGroup]:
        """ConsumerGroupDescribe: one entry for each id, in their order."""
        return [
            describe_missing(group_id, missing_because)
            if (group := self._groups.get(group_id)) is None
            else describe(group, self._topics, self._settings.group_consumer_assignors)
            for group_id in group_ids
        ]

    def delete(self, group_id: str) -> tuple[ErrorCode, list[Record]]:
        """Delete a group without members. Its offsets are not looked after here."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, []
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP, []
        return ErrorCode.NONE, list(journal.no_group(group))

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether some member of the group subscribes to the topic, by name or by pattern."""
        group = self._groups.get(group_id)
        return group is not None and topic in group.subscribed

    # Offsets

    def validate_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        member_epoch: int,
        *,
        version: int = offset_validation.COMMIT_WITH_EPOCH,
        transactional: bool = False,
    ) -> ErrorCode:
        """Whether a member may commit offsets; see ``offset_validation.check_commit``."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return offset_validation.check_commit(
            group, member_id, instance_id, member_epoch, version, transactional
        )

    def validate_partition_commit(
        self,
        group_id: str,
        member_id: str,
        member_epoch: int,
        topic_id: UUID | None,
        partition: int,
    ) -> ErrorCode:
        """Whether a member that is behind may commit for one partition; None: no such topic."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return offset_validation.check_partition(
            group, member_id, member_epoch, topic_id, partition
        )

    def validate_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether a member may read the group's offsets; anybody may who claims to be none."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return offset_validation.check_fetch(group, member_id or "", member_epoch)

    # The log

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the groups up to one record; records of other kinds are ignored."""
        decoded = from_record(key, value)
        if decoded is not None:
            self.apply(*decoded)

    def apply(self, key: r.GroupKey, value: r.GroupValue | None) -> None:
        """The same for a record that has been decoded already."""
        if not isinstance(key, journal.KEYS):
            return
        group = self._groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, r.ConsumerGroupMetadataKey):
            del self._groups[key.group_id]
            return
        journal.replay(group, key, value)
        if isinstance(
            key, r.ConsumerGroupMemberMetadataKey | r.ConsumerGroupCurrentMemberAssignmentKey
        ):
            self.timers.drop_settled(group, key.member_id)
        elif isinstance(key, r.ConsumerGroupRegularExpressionKey) and value is None:
            self.timers.forget_pattern(key.group_id, key.regular_expression)

    # Last in the class: the name hides the built-in one from the annotations that follow.
    def list(self) -> list[ListedGroup]:
        """ListGroups: all groups; the caller filters them."""
        return [listed(group) for group in self._groups.values()]


def _away(member: Member) -> Member:
    """A static member that means to come back: it keeps its partitions until its session ends."""
    return replace(
        member,
        epoch=STATIC_LEAVE_EPOCH,
        assigned={
            topic_id: dict.fromkeys(partitions, 0)
            for topic_id, partitions in member.assigned.items()
        },
        pending_revocation={},
    )


def _made_of(group_id: str, records: Sequence[Record]) -> ConsumerGroup:
    """The group that these records describe; a new one if there are none."""
    group = ConsumerGroup(group_id)
    for record in records:
        decoded = from_record(*record)
        assert decoded is not None
        journal.replay(group, *decoded)
    return group

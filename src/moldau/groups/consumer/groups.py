"""All consumer groups of a shard: the door to this package.

Every request, deadline and change of topics comes in here and leaves as an ``Outcome``. What a
group is changes only in ``replay``; besides that there are deadlines, and a mark on groups whose
topics may have changed, neither of which is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from uuid import UUID

from kio.schema.consumer_group_describe.v1.response import DescribedGroup
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.list_groups.v5.response import ListedGroup

from moldau.errors import ErrorCode, KafkaError
from moldau.groups import records as r
from moldau.groups.consumer import journal, messages
from moldau.groups.consumer.describe import describe, describe_missing, listed
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.heartbeat import (
    Change,
    Heartbeats,
    is_quiet,
    static_member,
    unknown_member,
)
from moldau.groups.consumer.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
    MemberState,
)
from moldau.groups.consumer.timers import RETRY_MS, MemberDeadline, MemberTimeout
from moldau.groups.outcome import ClientInfo, Outcome, Record, Reply
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.groups.topics import TopicView

_COMMIT_WITH_EPOCH = 9
"""The first version of OffsetCommit that has a member epoch."""


class ConsumerGroups:
    """The groups of one ``__consumer_offsets`` partition that use the consumer protocol."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicView,
        timeouts: Timeouts[MemberTimeout],
        new_member_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._timeouts = timeouts
        self._new_member_id = new_member_id
        self._heartbeats = Heartbeats(settings, topics)
        self._groups: dict[str, ConsumerGroup] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    def group_ids(self) -> Collection[str]:
        return self._groups.keys()

    # ConsumerGroupHeartbeat

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        """A member joins (epoch 0), lives, leaves (-1), or leaves for a while (-2)."""
        try:
            messages.check(request, version, self._settings.group_consumer_assignors)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(request, token)
            return self._beat(request, token, now_ms, client)
        except KafkaError as error:
            return Outcome.reply(token, messages.error_response(error.code, error.message))

    def _beat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
    ) -> Outcome:
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is None:
            if request.member_epoch != 0:
                raise _no_group(group_id)
            group = ConsumerGroup(group_id)  # replaying the records is what adds it
        member_id = request.member_id
        member = group.members.get(member_id)
        if member is None:
            self._check_room(group)
            member_id = member_id or self._new_member_id()
        elif is_quiet(group, member, request, client):
            self._watch(group_id, member, now_ms, moved=False)
            interval_ms = self._settings.of_group(group_id).consumer_heartbeat_interval_ms
            answer = messages.response(member_id, member.epoch, interval_ms, None)
            return Outcome.reply(token, answer)
        change = self._heartbeats.beat(group, request, member_id, client, now_ms)
        undo_refresh = self._after_change(group, change, now_ms)
        tell = change.assignment_changed or messages.is_full(request)
        answer = messages.response(
            member_id,
            change.member.epoch,
            self._settings.of_group(group_id).consumer_heartbeat_interval_ms,
            change.member.assigned if tell else None,
        )

        def failed(code: ErrorCode) -> list[Reply]:
            undo_refresh()
            return [Reply(token, messages.error_response(code))]

        return Outcome(change.records, [Reply(token, answer)], failed)

    def _after_change(
        self, group: ConsumerGroup, change: Change, now_ms: int
    ) -> Callable[[], None]:
        """Set the deadlines of a member that was heard of; returns how to ask for topics again."""
        refreshed = group.refresh_requested
        group.refresh_requested = False
        self._watch(group.group_id, change.member, now_ms, moved=change.moved)

        def undo() -> None:
            group.refresh_requested = group.refresh_requested or refreshed

        return undo

    def _watch(self, group_id: str, member: Member, now_ms: int, *, moved: bool) -> None:
        timeout_ms = self._settings.of_group(group_id).consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._timeouts.set(
            MemberTimeout(MemberDeadline.SESSION, group_id, member.member_id), now_ms + timeout_ms
        )
        if (
            moved
            and member.state is MemberState.UNREVOKED_PARTITIONS
            and not member.uses_classic_protocol
        ):
            self._timeouts.set(
                MemberTimeout(MemberDeadline.REBALANCE, group_id, member.member_id),
                now_ms + member.rebalance_timeout_ms,
            )

    def _check_room(self, group: ConsumerGroup) -> None:
        limit = self._settings.group_consumer_max_size
        if len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {limit} members, which is as many as it may have.",
            )

    def _leave(self, request: ConsumerGroupHeartbeatRequest, token: object) -> Outcome:
        group = self._groups.get(request.group_id)
        if group is None:
            raise _no_group(request.group_id)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise unknown_member(group.group_id, request.member_id)
        else:
            member = static_member(group, request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            records = [journal.current_assignment(group.group_id, _away(member))]
        else:
            records = self._heartbeats.fence(group, {member.member_id})
        answer = messages.response(member.member_id, request.member_epoch, 0, None)
        return Outcome(
            records,
            [Reply(token, answer)],
            lambda code: [Reply(token, messages.error_response(code))],
        )

    # Deadlines and topics

    def on_time(self, now_ms: int, keys: Iterable[MemberTimeout]) -> Outcome:
        """Fence the members whose deadlines have come. Keys that no longer matter are ignored."""
        due: dict[str, dict[str, MemberTimeout]] = {}
        for key in keys:
            group = self._groups.get(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if member is not None and _is_overdue(member, key):
                due.setdefault(key.group_id, {})[key.member_id] = key
        outcome = Outcome()
        for group_id, members in due.items():
            outcome.records += self._heartbeats.fence(self._groups[group_id], members)

        def failed(_code: ErrorCode) -> list[Reply]:
            for members in due.values():
                for key in members.values():
                    self._timeouts.set(key, now_ms + RETRY_MS)
            return []

        if due:
            outcome.on_failure = failed
        return outcome

    def on_topics_changed(self, names: Collection[str]) -> Outcome:
        """Topics appeared, went, or grew: the next heartbeat of a group concerned looks at them."""
        changed = frozenset(names)
        for group in self._groups.values():
            if group.regexes or not changed.isdisjoint(group.subscribed):
                group.refresh_requested = True
        return Outcome()

    def on_loaded(self, now_ms: int) -> Outcome:
        """The log has been replayed: every member has a whole session to make itself heard."""
        for group in self._groups.values():
            group.refresh_requested = True
            for member in group.members.values():
                self._watch(group.group_id, member, now_ms, moved=True)
        return Outcome()

    # Administration

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """ConsumerGroupDescribe: one entry for each id, in their order."""
        return [
            describe_missing(group_id)
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

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or not group.members

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
        version: int = _COMMIT_WITH_EPOCH,
        transactional: bool = False,
    ) -> ErrorCode:
        """Whether a member may commit offsets.

        STALE_MEMBER_EPOCH does not settle it for a member that is behind: for each partition
        ``validate_partition_commit`` then says whether the member had it at that epoch already.
        """
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if member_epoch < 0 and not group.members:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns itself
        if transactional and member_epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE  # a producer that does not say which member it acts for
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not (transactional or member.uses_classic_protocol) and version < _COMMIT_WITH_EPOCH:
            return ErrorCode.UNSUPPORTED_VERSION
        return _check_epoch(member, member_epoch)

    def validate_partition_commit(
        self, group_id: str, member_id: str, member_epoch: int, topic_id: UUID, partition: int
    ) -> ErrorCode:
        """Whether a member that is behind may commit for one partition (KIP-1251).

        It may if it has had the partition since the epoch that it sends, or before.
        """
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        since = member.assignment_epoch(topic_id, partition)
        if since is not None and since <= member_epoch <= member.epoch:
            return ErrorCode.NONE
        return _stale(member)

    def validate_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether a member may read the group's offsets; anybody may who claims to be none."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _check_epoch(member, member_epoch)

    # The log

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the groups up to one record; records of other kinds are ignored."""
        decoded = r.from_record(key, value)
        if decoded is not None:
            self.apply(*decoded)

    def apply(self, key: r.Key, value: r.Value | None) -> None:
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
            self._drop_deadlines(group, key.member_id)

    def _drop_deadlines(self, group: ConsumerGroup, member_id: str) -> None:
        """Forget what was due for a member that is gone, or that has done it."""
        member = group.members.get(member_id)
        if member is None:
            self._timeouts.cancel(MemberTimeout(MemberDeadline.SESSION, group.group_id, member_id))
        if member is None or not _is_revoking(member):
            self._timeouts.cancel(
                MemberTimeout(MemberDeadline.REBALANCE, group.group_id, member_id)
            )

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


def _is_revoking(member: Member) -> bool:
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != STATIC_LEAVE_EPOCH


def _is_overdue(member: Member, key: MemberTimeout) -> bool:
    return key.kind is MemberDeadline.SESSION or _is_revoking(member)


def _check_epoch(member: Member, epoch: int) -> ErrorCode:
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: Member) -> ErrorCode:
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _no_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")

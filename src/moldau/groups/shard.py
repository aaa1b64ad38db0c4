"""The coordinator state of one ``__consumer_offsets`` partition: groups of both kinds and offsets.

Requests are handed to the part that knows: ``ClassicGroups``, ``ConsumerGroups``, ``OffsetStore``.
A group id belongs to one kind at a time; which one is decided here, with ``migration`` for groups
that change their kind while they have members. So is what concerns groups and their offsets
together: deletion and expiry.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult
from kio.schema.describe_groups.v6.response import DescribedGroup
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.list_groups.v5.response import ListedGroup
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest

from moldau.errors import ErrorCode, KafkaError
from moldau.groups import listings, offsets
from moldau.groups.admission import heartbeat_growth, join_growth, sync_growth
from moldau.groups.classic import (
    ClassicDeadline,
    ClassicGroup,
    ClassicGroups,
    ClassicGroupState,
)
from moldau.groups.classic.responses import join_error, sync_error
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer import messages
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.groups import ConsumerGroups
from moldau.groups.consumer.timers import MemberTimeout, PatternResolution
from moldau.groups.memory import GroupMemory, protocols_size
from moldau.groups.migration import ClassicMembers, Downgrader, upgrade
from moldau.groups.offsets import (
    FROM_COMMIT,
    NO_PRODUCER_ID,
    OffsetStore,
    PartitionCheck,
    Retention,
)
from moldau.groups.records import from_record, tombstone
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.groups.topics import TopicView
from moldau.machine.clock_watch import JUMP_MS
from moldau.outcome import Outcome, Record, Reply, Transaction, append_error
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from moldau.wire.stored.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

_EXPIRY: Final = "offset expiry"
_FULL: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""To members for which there is no memory: clients take it for a reason to try again later."""
_FULL_OF_CONSUMERS: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The same under the consumer protocol, where Java's client looks for a coordinator, and asks it,
without a pause if it is not available.
"""


class GroupShard:
    """First ``replay`` what is stored, then ``on_loaded``, then requests and deadlines.

    ``new_uuid`` is where member ids come from.
    """

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicView,
        new_uuid: Callable[[], UUID],
        memory: GroupMemory | None = None,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._timeouts: Timeouts[Any] = Timeouts()
        self._skips_expiry = False
        self._loading = True
        self._now_ms = 0
        self._classic = ClassicGroups(
            settings, self._timeouts, lambda prefix: f"{prefix}-{new_uuid()}"
        )
        downgrader = Downgrader(settings, topics, self._classic)
        self._consumer = ConsumerGroups(
            settings, topics, self._timeouts, lambda: _short(new_uuid()), downgrader.without
        )
        self._classic_members = ClassicMembers(settings, topics, self._consumer, downgrader)
        self._offsets = OffsetStore(settings)
        self._memory = memory or GroupMemory()
        self._memory.watch(self)

    # Memory --------------------------------------------------------------------------------------

    def footprints(self) -> Iterator[int]:
        """What members take, in bytes, and groups that are nothing but a name."""
        yield from self._classic.footprints(self._offsets.has_offsets)
        yield from self._consumer.footprints(self._offsets.has_offsets)

    def _has_room(self, growth: int, now_ms: int) -> bool:
        return growth <= 0 or self._memory.has_room(growth, now_ms)

    # Classic groups ------------------------------------------------------------------------------

    def join_group(
        self,
        request: JoinGroupRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        if not self._has_room(join_growth(request, client, self._known(request)), now_ms):
            refused = join_error(_FULL, request.member_id, version=version)
            return Outcome.reply(token, refused)
        group = self._consumer.get(request.group_id)
        if group is None:
            return self._classic.join(request, token, now_ms, client, version)
        if group.members:
            return self._classic_members.join(group, request, token, now_ms, client, version)
        return _instead(
            self._consumer.delete(request.group_id)[1],
            self._classic.join(request, token, now_ms, client, version),
        )

    def _known(self, request: JoinGroupRequest) -> int | None:
        """Returns what the metadata of the member takes that joins again; None if it is new."""
        names = (request.group_id, request.member_id, request.group_instance_id)
        member = self._classic.member(*names)
        if member is not None:
            return protocols_size(member.protocols)
        mixed = self._consumer.member(*names)
        return None if mixed is None else mixed.metadata_size

    def sync_group(
        self, request: SyncGroupRequest, token: object, now_ms: int, version: int
    ) -> Outcome:
        growth = sync_growth(request, self._classic.get(request.group_id))
        if not self._has_room(growth, now_ms):
            return Outcome.reply(token, sync_error(_FULL))
        group = self._mixed(request.group_id)
        if group is not None:
            return self._classic_members.sync(group, request, token, now_ms, version)
        return self._classic.sync(request, token, now_ms, version)

    def heartbeat(self, request: HeartbeatRequest, token: object, now_ms: int) -> Outcome:
        group = self._mixed(request.group_id)
        if group is not None:
            return self._classic_members.heartbeat(group, request, token, now_ms)
        return self._classic.heartbeat(request, token, now_ms)

    def leave_group(self, request: LeaveGroupRequest, token: object, now_ms: int) -> Outcome:
        group = self._mixed(request.group_id)
        if group is not None:
            return self._classic_members.leave(group, request, token, now_ms)
        return self._classic.leave(request, token, now_ms)

    def _mixed(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group that may have classic members; an empty one is as good as none."""
        group = self._consumer.get(group_id)
        return group if group is not None and group.members else None

    # Groups under the consumer protocol ----------------------------------------------------------

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        known = self._consumer.member(request.group_id, request.member_id)
        if not self._has_room(heartbeat_growth(request, client, known), now_ms):
            return Outcome.reply(token, messages.error_response(_FULL_OF_CONSUMERS))
        group = self._classic.get(request.group_id)
        if group is None:
            return self._consumer.heartbeat(request, token, now_ms, client, version)
        code, tombstones = self._classic.delete(request.group_id)
        if code or request.member_epoch != 0:
            return self._upgrade(group, request, token, now_ms, client, version)
        return _instead(
            tombstones, self._consumer.heartbeat(request, token, now_ms, client, version)
        )

    def _upgrade(
        self,
        group: ClassicGroup,
        request: ConsumerGroupHeartbeatRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        """A member under the consumer protocol joins a classic group that has members.

        Who does not join can be in no such group.
        """
        try:
            messages.check(request, version, self._settings.group_consumer_assignors)
            if request.member_epoch != 0:
                message = f"Group {group.group_id} is not a consumer group."
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
            upgraded = upgrade(group, self._settings, self._topics)
        except KafkaError as error:
            return Outcome.reply(token, messages.error_response(error.code, error.message))
        outcome = self._consumer.heartbeat(request, token, now_ms, client, version, upgraded)
        if not outcome.records:
            return outcome
        # Whoever waits for the classic group has to join what it becomes. If it does not become
        # that after all, joining again does no harm.
        group_id = group.group_id
        parked = self._classic.release(group_id, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        released = Outcome(
            [tombstone(GroupMetadataKey(group_id)), *upgraded], [*parked], lambda _: parked
        )
        released.extend(outcome)
        return released

    # Offsets -------------------------------------------------------------------------------------

    def offset_commit(
        self, request: OffsetCommitRequest, token: object, now_ms: int, version: int
    ) -> Outcome:
        self._now_ms = now_ms
        group_id, member_id = request.group_id, request.member_id
        epoch = request.generation_id_or_member_epoch
        check: PartitionCheck | None = None
        if group_id in self._consumer:
            code = self._consumer.validate_commit(
                group_id, member_id, request.group_instance_id, epoch, version=version
            )
            if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION):
                # A member that is behind may still commit for what it has had all the time.
                check = self._partition_check(group_id, member_id, epoch)
                code = ErrorCode.NONE
        else:
            code = self._classic.validate_commit(
                group_id, member_id, request.group_instance_id, epoch, now_ms, version=version
            )
        if code:
            return Outcome.reply(token, offsets.commit_error(request, code))
        return offsets.commit(self._offsets, request, token, now_ms, check=check)

    def txn_offset_commit(
        self,
        request: OffsetCommitRequest,
        transaction: Transaction,
        token: object,
        now_ms: int,
        version: int,
    ) -> Outcome:
        """A commit that counts when its transaction does. A producer that says for which member it
        acts is fenced with it (KIP-447).
        """
        self._now_ms = now_ms
        group_id, epoch = request.group_id, request.generation_id_or_member_epoch
        member = (group_id, request.member_id, request.group_instance_id, epoch)
        if group_id in self._consumer:
            code = self._consumer.validate_commit(*member, version=version, transactional=True)
            if code is ErrorCode.STALE_MEMBER_EPOCH:
                code = ErrorCode.ILLEGAL_GENERATION  # which is what producers know
        else:
            code = self._classic.validate_commit(
                *member, now_ms, version=version, transactional=True
            )
        if code:
            return Outcome.reply(token, offsets.commit_error(request, code))
        return offsets.commit(self._offsets, request, token, now_ms, transaction=transaction)

    def _partition_check(self, group_id: str, member_id: str, epoch: int) -> PartitionCheck:
        def check(topic: str, topic_id: UUID | None, partition: int) -> ErrorCode:
            known_id = topic_id or self._topics.topic_id(topic)
            return self._consumer.validate_partition_commit(
                group_id, member_id, epoch, known_id, partition
            )

        return check

    def offset_fetch(
        self,
        request: OffsetFetchRequestGroup,
        token: object,
        _now_ms: int,
        *,
        require_stable: bool = False,
    ) -> Outcome:
        """One group's part of an OffsetFetch."""
        code = ErrorCode.NONE
        if request.group_id in self._consumer:
            code = self._consumer.validate_fetch(
                request.group_id, request.member_id, request.member_epoch
            )
        if code:
            refused = OffsetFetchResponseGroup(
                group_id=request.group_id, topics=(), error_code=code
            )
            return Outcome.reply(token, refused)
        return Outcome.reply(
            token, offsets.fetch(self._offsets, request, require_stable=require_stable)
        )

    def offset_delete(self, request: OffsetDeleteRequest, token: object, _now_ms: int) -> Outcome:
        group_id = request.group_id
        if group_id in self._consumer:
            kind: ClassicGroups | ConsumerGroups = self._consumer
        else:
            kind = self._classic
            code = self._classic.validate_offset_delete(group_id)
            if code:
                return Outcome.reply(token, offsets.delete_error(code))
        return offsets.delete(
            self._offsets, request, token, lambda topic: kind.is_subscribed(group_id, topic)
        )

    # Administration ------------------------------------------------------------------------------

    def describe_group(self, group_id: str, token: object, version: int) -> Outcome:
        """One group's part of a DescribeGroups."""
        reason = "is not a classic group" if group_id in self._consumer else "not found"
        described: DescribedGroup = listings.described(
            group_id, self._classic.describe(group_id), version, reason
        )
        return Outcome.reply(token, described)

    def consumer_group_describe(self, group_id: str, token: object) -> Outcome:
        """One group's part of a ConsumerGroupDescribe."""
        reason = "is not a consumer group" if group_id in self._classic else "not found"
        return Outcome.reply(token, self._consumer.describe([group_id], reason)[0])

    def list_groups(self) -> list[ListedGroup]:
        """Returns the groups of each kind, the newest first: Kafka's order is a hash table's."""
        groups = [*map(listings.listed, self._classic.list()), *self._consumer.list()]
        groups.reverse()
        return groups

    def counts(self) -> Counter[str]:
        """How many groups of each kind and committed offsets there are."""
        return Counter(
            classic=len(self._classic), consumer=len(self._consumer), offsets=len(self._offsets)
        )

    def delete_group(self, group_id: str, token: object, _now_ms: int) -> Outcome:
        """One group's part of a DeleteGroups."""
        kind = self._consumer if group_id in self._consumer else self._classic
        code, tombstones = kind.delete(group_id)

        def answer(result: ErrorCode) -> Reply:
            return Reply(token, make(DeletableGroupResult, group_id=group_id, error_code=result))

        if code:
            return Outcome(replies=[answer(code)])
        return Outcome(
            [*self._offsets.delete_group(group_id), *tombstones],
            [answer(ErrorCode.NONE)],
            lambda failure: [answer(append_error(failure))],
        )

    # Time ----------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        return self._timeouts.next()

    def clock_was_set(self, by_ms: int) -> None:
        """Sessions and rebalances take as long as they take, whatever the wall clock does.

        After a jump ahead the next check expires no offsets, as retention deletes nothing: by a
        clock that is wrong all of them may be too old.
        """
        self._timeouts.shift(by_ms)
        if abs(by_ms) >= JUMP_MS:
            self._skips_expiry = by_ms > 0

    def on_time(self, now_ms: int) -> Outcome:
        """Everything that is due: sessions, rebalances, the expiry of offsets."""
        due = self._timeouts.due(now_ms)
        outcome = Outcome()
        classic = [key for key in due if isinstance(key, ClassicDeadline)]
        if classic:
            outcome.extend(self._classic.on_time(now_ms, classic))
        consumer = [key for key in due if isinstance(key, MemberTimeout)]
        if consumer:
            outcome.extend(self._consumer.on_time(now_ms, consumer))
        if _EXPIRY in due:
            self._timeouts.set(_EXPIRY, now_ms + self._settings.offsets_retention_check_interval_ms)
            if not self._skips_expiry:
                outcome.records += self._expired(now_ms)
            self._skips_expiry = False
        patterns = [key for key in due if isinstance(key, PatternResolution)]
        # By themselves: the topics of a pattern may be more than can be written, and nothing else
        # is to fail with them.
        if patterns and outcome.is_empty:
            return self._consumer.resolve_patterns(now_ms, patterns)
        self._consumer.postpone(now_ms, patterns)
        return outcome

    def _expired(self, now_ms: int) -> list[Record]:
        """The tombstones of offsets that have outlived their time, and of groups left with none."""
        records: list[Record] = []
        for group_id in self._group_ids():
            expired = self._offsets.expire(group_id, self._retention(group_id), now_ms)
            records += expired.records
            if expired.nothing_left:
                if group_id in self._consumer:
                    records += self._consumer.delete(group_id)[1]
                else:
                    records += self._classic.delete_if_unused(group_id)
        return records

    def _group_ids(self) -> Iterable[str]:
        ids = dict.fromkeys(listing.group_id for listing in self._classic.list())
        ids |= dict.fromkeys(self._consumer.group_ids())
        ids |= dict.fromkeys(self._offsets.groups())
        return ids

    def _retention(self, group_id: str) -> Retention | None:
        """When the offsets of a group expire; None: not at all for now."""
        if group_id in self._consumer:
            return Retention(None, lambda topic: self._consumer.is_subscribed(group_id, topic))
        group = self._classic.get(group_id)
        if group is None or group.protocol_type is None:
            return FROM_COMMIT
        if group.state is ClassicGroupState.EMPTY:
            return Retention(group.state_timestamp_ms)
        if group.state is ClassicGroupState.STABLE and group.subscribed_topics is not None:
            return Retention(None, group.is_subscribed)
        return None

    # Topics --------------------------------------------------------------------------------------

    def on_topics_changed(self, names: Collection[str], now_ms: int) -> Outcome:
        """Topics appeared, grew or went. Members of classic groups see that for themselves."""
        return self._consumer.on_topics_changed(names, now_ms)

    def on_topics_removed(self, removed: Collection[tuple[str, UUID]], _now_ms: int) -> Outcome:
        """Topics are gone for good: so are the offsets committed for them."""
        return Outcome(self._offsets.remove_topics(removed))

    # The log -------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the state up to one record; kinds of records that are not known are skipped."""
        decoded = from_record(key, value)
        if decoded is None:
            return
        known, content = decoded
        if isinstance(known, OffsetCommitKey):
            assert content is None or isinstance(content, OffsetCommitValue)
            self._replay_offset(known, content)
        elif isinstance(known, GroupMetadataKey):
            assert content is None or isinstance(content, GroupMetadataValue)
            self._classic.replay(known, content)
        else:
            self._consumer.apply(known, content)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Only offsets are committed in transactions."""
        decoded = from_record(key, value)
        if decoded is None:
            return
        known, content = decoded
        if isinstance(known, OffsetCommitKey):
            assert content is None or isinstance(content, OffsetCommitValue)
            self._replay_offset(known, content, producer_id)

    def replay_end(self, producer_id: int, *, commit: bool) -> None:
        self._offsets.end_transaction(producer_id, commit=commit)

    def _replay_offset(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        self._offsets.replay(key, value, producer_id)
        if value is not None and not self._loading and key.group not in self._consumer:
            self._classic.ensure(key.group, self._now_ms)

    def on_loaded(self, now_ms: int) -> Outcome:
        """The whole log is replayed: sessions begin anew."""
        self._loading = False
        self._now_ms = now_ms
        for group_id in tuple(self._offsets.groups()):
            if group_id not in self._consumer:
                self._classic.ensure(group_id, now_ms)
        self._timeouts.set(_EXPIRY, now_ms + self._settings.offsets_retention_check_interval_ms)
        outcome = self._classic.on_loaded(now_ms)
        outcome.extend(self._consumer.on_loaded(now_ms))
        return outcome


def _instead(tombstones: list[Record], outcome: Outcome) -> Outcome:
    """A group that is written under another kind takes the place of the empty one before."""
    if outcome.records:
        outcome.records = [*tombstones, *outcome.records]
    return outcome


def _short(value: UUID) -> str:
    """A UUID as Kafka writes it."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()

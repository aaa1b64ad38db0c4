"""Classic members of a group under the consumer protocol.

They speak JoinGroup, SyncGroup, Heartbeat and LeaveGroup as ever, and take no part in each other's
rounds: a JoinGroup is answered at once, there is no leader, the generation is the epoch of the
member, and its assignment is what the coordinator gives it. What a heartbeat of the consumer
protocol says with an assignment, one of the classic protocol says with REBALANCE_IN_PROGRESS: the
member joins again, and by what it owns then (an eager member: nothing) it acknowledges what it had
to give up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.classic import responses
from moldau.groups.classic.joining import Joiner
from moldau.groups.classic.syncing import check_sync_request
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.groups import ConsumerGroups
from moldau.groups.consumer.heartbeat import (
    Change,
    find_classic_member,
    static_member,
    unknown_member,
)
from moldau.groups.consumer.member import Member, MemberState
from moldau.groups.migration.assignments import by_topic_id, embedded_assignment
from moldau.groups.migration.downgrade import Downgrader
from moldau.groups.settings import GroupSettings, MigrationPolicy
from moldau.groups.topics import TopicView
from moldau.outcome import Outcome, Record, Reply
from moldau.wire.embedded_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_subscription,
    protocol_version,
)
from moldau.wire.errors import DecodeError
from moldau.wire.stored.group_records import ClassicMemberMetadata, ClassicProtocol


@dataclass(frozen=True, slots=True)
class ClassicMembers:
    """Each request is for a group of ``groups`` that has members."""

    settings: GroupSettings
    topics: TopicView
    groups: ConsumerGroups
    downgrader: Downgrader

    # JoinGroup

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        token: object,
        now_ms: int,
        client: ClientInfo,
        version: int,
    ) -> Outcome:
        joiner = Joiner(request, token, client, version)
        if not joiner.has_valid_session(self.settings):
            error_code = ErrorCode.INVALID_SESSION_TIMEOUT
            return Outcome.reply(
                token, responses.join_error(error_code, request.member_id, version=version)
            )
        try:
            return self._join(group, joiner, token, now_ms)
        except KafkaError as error:
            return Outcome.reply(token, responses.join_error(error.code, version=version))

    def _join(self, group: ConsumerGroup, joiner: Joiner, token: object, now_ms: int) -> Outcome:
        if self.settings.group_consumer_migration_policy is MigrationPolicy.DISABLED:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol "
                "because the group migration is disabled.",
            )
        member_id = joiner.member_id or self.groups.new_member_id()
        if member_id not in group.members:
            self.groups.check_room(group)
        if not _supports(group, joiner):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id} supports no protocol that all classic members do.",
            )
        if joiner.needs_member_id:
            answer = responses.join_error(
                ErrorCode.MEMBER_ID_REQUIRED, member_id, version=joiner.version
            )
            return Outcome.reply(token, answer)

        records: list[Record] = []
        before, replaced = find_classic_member(
            group, member_id, joiner.instance_id, joins=not joiner.member_id, records=records
        )
        subscription = _subscription(joiner)
        after = _updated(before, joiner, subscription)
        existing = None if joiner.instance_id is None else group.static_member(joiner.instance_id)
        downgrade = existing is not None and self.downgrader.is_due_with(group, after, existing)
        change = self.groups.heartbeats.update(
            group,
            before,
            after,
            by_topic_id(subscription.owned_partitions, self.topics),
            now_ms,
            records,
            replaced=replaced,
            may_assign=not downgrade,
        )
        converted = (
            self.downgrader.with_replaced(group, change.member, now_ms, rebalance=change.is_stale)
            if downgrade
            else None
        )
        outcome = Outcome(change.records)
        outcome.extend(converted or self._expect_sync(group, change, now_ms))
        outcome.extend(_joined(change.member, joiner, token))
        return outcome

    def _expect_sync(self, group: ConsumerGroup, change: Change, now_ms: int) -> Outcome:
        """The member is one of the consumer group: set its deadlines."""
        undo_refresh = self.groups.after_change(group, change, now_ms)
        self.groups.timers.joined(group.group_id, change.member, now_ms)

        def failed(_code: ErrorCode) -> list[Reply]:
            undo_refresh()
            self.groups.timers.synced(group.group_id, change.member)
            return []

        return Outcome(on_failure=failed)

    # SyncGroup

    def sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        token: object,
        now_ms: int,
        version: int,
    ) -> Outcome:
        error = check_sync_request(request, version)
        if error:
            return Outcome.reply(token, responses.sync_error(error))
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            _check_protocol(member, request.protocol_type, request.protocol_name)
            if (
                member.epoch < group.assignment_epoch
                and member.state is not MemberState.UNREVOKED_PARTITIONS
            ):
                # One that has to give up partitions learns which ones from this very answer.
                self.groups.timers.await_join(group.group_id, member, now_ms)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as failure:
            return Outcome.reply(token, responses.sync_error(failure.code))
        self.groups.timers.synced(group.group_id, member)
        self.groups.timers.heard(group.group_id, member, now_ms)
        answer = responses.synced(
            request.protocol_type, request.protocol_name, self._assignment(member)
        )
        return Outcome.reply(token, answer)

    def _assignment(self, member: Member) -> bytes:
        assert member.classic is not None
        return embedded_assignment(
            member.assigned,
            self.topics,
            protocol_version(member.classic.supported_protocols[0].metadata),
        )

    # Heartbeat

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, token: object, now_ms: int
    ) -> Outcome:
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
        except KafkaError as error:
            return Outcome.reply(token, responses.heartbeat(error.code))
        self.groups.timers.heard(group.group_id, member, now_ms)
        if not _must_rejoin(group, member):
            return Outcome.reply(token, responses.heartbeat(ErrorCode.NONE))
        self.groups.timers.await_join(group.group_id, member, now_ms)
        return Outcome.reply(token, responses.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS))

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, token: object, now_ms: int
    ) -> Outcome:
        """Members leave, or are removed by an administrator, whatever protocol they use."""
        results: list[tuple[MemberIdentity, ErrorCode]] = []
        leaving: dict[str, None] = {}  # in the order of the request, which is that of the records
        for identity in request.members:
            try:
                leaving[_leaving(group, identity).member_id] = None
            except KafkaError as error:
                results.append((identity, error.code))
            else:
                results.append((identity, ErrorCode.NONE))
        outcome = self.groups.remove(group, leaving, now_ms) if leaving else Outcome()
        outcome.extend(
            Outcome(
                replies=[Reply(token, responses.left(results))],
                on_failure=lambda code: [Reply(token, responses.leave_error(code))],
            )
        )
        return outcome


def _supports(group: ConsumerGroup, joiner: Joiner) -> bool:
    """Whether the joiner and all classic members have a protocol in common."""
    if joiner.protocol_type != PROTOCOL_TYPE:
        return False
    common = {name for name, _ in joiner.protocols}
    for member in group.members.values():
        if member.classic is not None:
            common &= {protocol.name for protocol in member.classic.supported_protocols}
    return bool(common)


def _subscription(joiner: Joiner) -> ConsumerProtocolSubscription:
    """All protocols of a consumer have the same topics and owned partitions: take the first."""
    try:
        return decode_subscription(joiner.protocols[0][1])
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _updated(member: Member, joiner: Joiner, subscription: ConsumerProtocolSubscription) -> Member:
    return replace(
        member,
        instance_id=joiner.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=joiner.rebalance_timeout_ms,
        subscribed_names=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=joiner.client.client_id,
        client_host=joiner.client.client_host,
        classic=ClassicMemberMetadata(
            joiner.session_timeout_ms,
            tuple(ClassicProtocol(name, metadata) for name, metadata in joiner.protocols),
        ),
    )


def _joined(member: Member, joiner: Joiner, token: object) -> Outcome:
    name = joiner.protocols[0][0]
    return Outcome(
        replies=[Reply(token, responses.joined_alone(member.member_id, member.epoch, name))],
        on_failure=lambda code: [
            Reply(token, responses.join_error(code, joiner.member_id, version=joiner.version))
        ],
    )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = static_member(group, instance_id, member_id)
    if member is None or not member.uses_classic_protocol:
        raise unknown_member(group.group_id, member_id)
    return member


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.members.get(identity.member_id)
    elif identity.member_id:
        member = static_member(group, instance_id, identity.member_id)
    else:
        member = group.static_member(instance_id)
    if member is None:
        raise unknown_member(group.group_id, identity.member_id)
    return member


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _check_protocol(member: Member, protocol_type: str | None, name: str | None) -> None:
    assert member.classic is not None
    if protocol_type not in (None, PROTOCOL_TYPE) or name not in (
        None,
        member.classic.supported_protocols[0].name,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _must_rejoin(group: ConsumerGroup, member: Member) -> bool:
    """Whether the member can move on, for which it has to join again.

    A target that is due is computed by the next heartbeat under the consumer protocol. In a group
    of classic members only, which may not become a classic group again, they have to see to it.
    """
    return (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or _has_more_to_get(group, member)
        or (group.epoch > group.assignment_epoch and group.has_only_classic_members)
    )


def _has_more_to_get(group: ConsumerGroup, member: Member) -> bool:
    """Whether all that the member waits for has been given up by those who had it."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        group.is_held(topic_id, partition)
        for topic_id, partitions in group.target_of(member).items()
        for partition in partitions - member.assigned.get(topic_id, {}).keys()
    )

"""The records that describe consumer groups: what a change writes, and how a record is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from moldau.groups.consumer.assignors import Partitions
from moldau.groups.consumer.group import ConsumerGroup, ResolvedRegex
from moldau.groups.consumer.member import LEAVE_EPOCH, Member, MemberState, Ownership
from moldau.groups.records import to_record, tombstone
from moldau.outcome import Record
from moldau.wire.errors import DecodeError
from moldau.wire.stored import group_records as r

# What a change writes


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return to_record(
        r.ConsumerGroupMetadataKey(group_id), r.ConsumerGroupMetadataValue(epoch, metadata_hash)
    )


def no_partition_metadata(group_id: str) -> Record:
    return tombstone(r.ConsumerGroupPartitionMetadataKey(group_id))


def member_metadata(group_id: str, member: Member) -> Record:
    return to_record(
        r.ConsumerGroupMemberMetadataKey(group_id, member.member_id),
        r.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.subscribed_names)),
            subscribed_topic_regex=member.subscribed_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def current_assignment(group_id: str, member: Member) -> Record:
    return to_record(
        r.ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        r.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_from_ownership(member.assigned),
            partitions_pending_revocation=_from_ownership(member.pending_revocation),
        ),
    )


def target_assignment(group_id: str, member_id: str, target: Partitions) -> Record:
    return to_record(
        r.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        r.ConsumerGroupTargetAssignmentMemberValue(
            tuple(
                r.TargetPartitions(topic_id, tuple(sorted(target[topic_id])))
                for topic_id in sorted(target)
            )
        ),
    )


def target_epoch(group_id: str, epoch: int, now_ms: int) -> Record:
    return to_record(
        r.ConsumerGroupTargetAssignmentMetadataKey(group_id),
        r.ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms),
    )


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegex | None) -> Record:
    key = r.ConsumerGroupRegularExpressionKey(group_id, regex)
    if resolved is None:
        return tombstone(key)
    return to_record(
        key,
        r.ConsumerGroupRegularExpressionValue(
            tuple(sorted(resolved.topics)), resolved.version, resolved.timestamp_ms
        ),
    )


def no_member(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a member. Who reads them in this order never sees it hold partitions that
    it is not a member for."""
    return [
        tombstone(r.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        tombstone(r.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        tombstone(r.ConsumerGroupMemberMetadataKey(group_id, member_id)),
    ]


def no_group(group: ConsumerGroup, also: Iterable[str] = ()) -> Iterator[Record]:
    """The tombstones of a group and of whatever it has, and of members about to be in it."""
    group_id = group.group_id
    for member_id in sorted({*group.members, *group.target, *also}):
        yield from no_member(group_id, member_id)
    for regex in sorted(group.regexes):
        yield regular_expression(group_id, regex, None)
    yield tombstone(r.ConsumerGroupTargetAssignmentMetadataKey(group_id))
    if group.has_partition_metadata:
        yield no_partition_metadata(group_id)
    yield tombstone(r.ConsumerGroupMetadataKey(group_id))


def _from_ownership(ownership: Ownership) -> tuple[r.CurrentPartitions, ...]:
    topics = []
    for topic_id in sorted(ownership):
        partitions = tuple(sorted(ownership[topic_id]))
        epochs = tuple(ownership[topic_id][partition] for partition in partitions)
        topics.append(r.CurrentPartitions(topic_id, partitions, epochs))
    return tuple(topics)


# How a record is replayed

KEYS = (
    r.ConsumerGroupMetadataKey,
    r.ConsumerGroupPartitionMetadataKey,
    r.ConsumerGroupMemberMetadataKey,
    r.ConsumerGroupTargetAssignmentMetadataKey,
    r.ConsumerGroupTargetAssignmentMemberKey,
    r.ConsumerGroupCurrentMemberAssignmentKey,
    r.ConsumerGroupRegularExpressionKey,
)


def replay(group: ConsumerGroup, key: r.GroupKey, value: r.GroupValue | None) -> None:
    """Bring a group up to a record of its own; a tombstone of the group itself is the caller's.

    The log is compacted, so the parts of a group may come in any order.
    """
    match key, value:
        case r.ConsumerGroupMetadataKey(), r.ConsumerGroupMetadataValue():
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case r.ConsumerGroupPartitionMetadataKey(), _:
            group.has_partition_metadata = value is not None
        case r.ConsumerGroupTargetAssignmentMetadataKey(), _:
            _replay_target_epoch(group, value)
        case r.ConsumerGroupTargetAssignmentMemberKey(), _:
            _replay_target(group, key.member_id, value)
        case r.ConsumerGroupMemberMetadataKey(), _:
            _replay_member(group, key.member_id, value)
        case r.ConsumerGroupCurrentMemberAssignmentKey(), _:
            _replay_assignment(group, key.member_id, value)
        case r.ConsumerGroupRegularExpressionKey(), _:
            _replay_regex(group, key.regular_expression, value)


def _replay_target_epoch(group: ConsumerGroup, value: r.GroupValue | None) -> None:
    if isinstance(value, r.ConsumerGroupTargetAssignmentMetadataValue):
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp
    else:
        group.assignment_epoch = 0
        group.assignment_timestamp_ms = 0


def _replay_target(group: ConsumerGroup, member_id: str, value: r.GroupValue | None) -> None:
    if isinstance(value, r.ConsumerGroupTargetAssignmentMemberValue):
        group.target[member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }
    else:
        group.target.pop(member_id, None)


def _replay_member(group: ConsumerGroup, member_id: str, value: r.GroupValue | None) -> None:
    if not isinstance(value, r.ConsumerGroupMemberMetadataValue):
        group.remove_member(member_id)
        return
    member = group.members.get(member_id) or Member(member_id)
    group.put_member(
        replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_names=frozenset(value.subscribed_topic_names),
            subscribed_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _replay_assignment(group: ConsumerGroup, member_id: str, value: r.GroupValue | None) -> None:
    member = group.members.get(member_id)
    if isinstance(value, r.ConsumerGroupCurrentMemberAssignmentValue):
        group.put_member(
            replace(
                member or Member(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState.read(value.state),
                assigned=_to_ownership(value.assigned_partitions, value.member_epoch),
                pending_revocation=_to_ownership(
                    value.partitions_pending_revocation, value.member_epoch
                ),
            )
        )
    elif member is not None:
        group.put_member(
            replace(
                member,
                epoch=LEAVE_EPOCH,
                previous_epoch=LEAVE_EPOCH,
                state=MemberState.STABLE,
                assigned={},
                pending_revocation={},
            )
        )


def _replay_regex(group: ConsumerGroup, regex: str, value: r.GroupValue | None) -> None:
    resolved = None
    if isinstance(value, r.ConsumerGroupRegularExpressionValue):
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.put_regex(regex, resolved)


def _to_ownership(topics: tuple[r.CurrentPartitions, ...], member_epoch: int) -> Ownership:
    # Records of Kafka 4.0 do not say when a partition was assigned; the member's own epoch then is
    # the latest that it can have been.
    ownership = {}
    for topic in topics:
        epochs = topic.assignment_epochs or (member_epoch,) * len(topic.partitions)
        if len(epochs) != len(topic.partitions):
            raise DecodeError(f"{len(topic.partitions)} partitions with {len(epochs)} epochs")
        ownership[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return ownership

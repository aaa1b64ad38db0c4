"""A classic group becomes one under the consumer protocol.

That happens when a member under the consumer protocol joins it. The classic members stay, with what
they were last assigned, and are served as members of the consumer group from then on. The newcomer
makes the group epoch rise, so all of them will be told to join again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.classic import ClassicGroup, ClassicGroupState, ClassicMember
from moldau.groups.consumer import journal
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.member import Member
from moldau.groups.consumer.subscriptions import metadata_hash
from moldau.groups.migration.assignments import by_topic_id
from moldau.groups.settings import GroupSettings
from moldau.groups.topics import TopicView
from moldau.outcome import Record
from moldau.wire.embedded_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
)
from moldau.wire.errors import DecodeError
from moldau.wire.stored.group_records import ClassicMemberMetadata, ClassicProtocol


def upgrade(group: ClassicGroup, settings: GroupSettings, topics: TopicView) -> list[Record]:
    """The records of the consumer group that a classic group with members becomes.

    Raises GROUP_ID_NOT_FOUND if it may not, or cannot, become one.
    """
    if not settings.group_consumer_migration_policy.allows_upgrade:
        raise _refused(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _refused(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings.group_consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size")
    try:
        subscriptions = _subscriptions(group)
        assignments = {key: decode_assignment(m.assignment) for key, m in group.members.items()}
    except DecodeError as error:
        raise _refused(group, "the embedded consumer protocol is malformed") from error
    if any(assignment.user_data for assignment in assignments.values()):
        raise _refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade",
        )
    held = _held(subscriptions, assignments, topics)
    members = [
        _member(group, member, subscriptions[member_id], held[member_id])
        for member_id, member in group.members.items()
    ]
    return _records(group, members, topics)


def _subscriptions(group: ClassicGroup) -> dict[str, ConsumerProtocolSubscription]:
    if not group.members:
        return {}  # they were to join, and left or timed out meanwhile
    # While members are joining, the last choice need not suit all of them, if there was one.
    is_open = group.protocol is None or group.state is ClassicGroupState.PREPARING_REBALANCE
    protocol = group.select_protocol() if is_open else group.protocol
    assert protocol is not None
    return {
        member_id: decode_subscription(member.metadata(protocol))
        for member_id, member in group.members.items()
    }


def _held(
    subscriptions: Mapping[str, ConsumerProtocolSubscription],
    assignments: Mapping[str, ConsumerProtocolAssignment],
    topics: TopicView,
) -> dict[str, dict[UUID, set[int]]]:
    """What members have: their assignments, and what they owned when they last joined.

    In the middle of a cooperative rebalance a member may own what it is not assigned any more. It
    gives that up when it joins again; until then nobody else may have it.
    """
    held: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in assignments}
    claimed: set[tuple[UUID, int]] = set()
    claims: list[tuple[str, Iterable[AssignedPartitions | OwnedPartitions]]] = [
        *((member_id, sent.assigned_partitions) for member_id, sent in assignments.items()),
        *((member_id, sent.owned_partitions) for member_id, sent in subscriptions.items()),
    ]
    for member_id, named in claims:
        for topic_id, partitions in by_topic_id(named, topics).items():
            free = {partition for partition in partitions if (topic_id, partition) not in claimed}
            claimed |= {(topic_id, partition) for partition in free}
            if free:
                held[member_id].setdefault(topic_id, set()).update(free)
    return held


def _member(
    group: ClassicGroup,
    member: ClassicMember,
    subscription: ConsumerProtocolSubscription,
    held: Mapping[UUID, Collection[int]],
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms,
            tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols),
        ),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned={
            topic_id: dict.fromkeys(partitions, group.generation)
            for topic_id, partitions in held.items()
        },
    )


def _records(group: ClassicGroup, members: list[Member], topics: TopicView) -> list[Record]:
    """In the order in which Kafka writes them. The target assignment is what members have; it has
    no time, so the next one need not keep a distance from it."""
    group_id, epoch = group.group_id, group.generation
    names = ConsumerGroup(group_id).subscribed_by(members, {})
    return [
        *(journal.member_metadata(group_id, member) for member in members),
        journal.group_epoch(group_id, epoch, metadata_hash(topics, names)),
        *(
            journal.target_assignment(
                group_id,
                member.member_id,
                {topic_id: frozenset(held) for topic_id, held in member.assigned.items()},
            )
            for member in members
        ),
        journal.target_epoch(group_id, epoch, 0),
        *(journal.current_assignment(group_id, member) for member in members),
    ]


def _refused(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )

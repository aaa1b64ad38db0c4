"""Consumer groups as ConsumerGroupDescribe and ListGroups show them."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from kio.schema.consumer_group_describe.v1.response import Member as DescribedMember
from kio.schema.list_groups.v5.response import ListedGroup

from moldau.errors import ErrorCode
from moldau.groups.consumer.assignors import Partitions
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.member import Member
from moldau.groups.topics import TopicView
from moldau.wire.make import make

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, topics: TopicView, assignors: Sequence[str]) -> DescribedGroup:
    return make(
        DescribedGroup,
        error_code=ErrorCode.NONE,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members.values(), assignors),
        # Kafka's order is that of a hash table. Whoever came last is what one looks for.
        members=tuple(
            _member(member, group.target_of(member), topics)
            for member in reversed(group.members.values())
        ),
    )


def describe_missing(group_id: str, missing_because: str) -> DescribedGroup:
    message = f"Group {group_id} {missing_because}."
    return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)


def not_described(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    """Returns the answer for a group of which there is nothing but an error to tell."""
    return make(
        DescribedGroup,
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


def listed(group: ConsumerGroup) -> ListedGroup:
    return make(
        ListedGroup,
        group_id=group.group_id,
        protocol_type="consumer",
        group_state=group.state.value,
        group_type="consumer",
    )


def _member(member: Member, target: Partitions, topics: TopicView) -> DescribedMember:
    return make(
        DescribedMember,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed_names)),
        subscribed_topic_regex=member.subscribed_regex or "",
        assignment=_assignment(member.held, topics),
        target_assignment=_assignment(target, topics),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, topics: TopicView) -> Assignment:
    # A topic that is gone has no name to show; its partitions are about to be taken away.
    named = sorted(
        (name, topic_id) for topic_id in partitions if (name := topics.name(topic_id)) is not None
    )
    return make(
        Assignment,
        topic_partitions=tuple(
            make(
                TopicPartitions,
                topic_id=topic_id,
                topic_name=name,
                partitions=tuple(sorted(partitions[topic_id])),
            )
            for name, topic_id in named
        ),
    )

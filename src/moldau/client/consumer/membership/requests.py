"""The actions of both machines as requests to the coordinator, and its answers as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from moldau.client.consumer.assignors.embedded import decode_subscription
from moldau.client.consumer.membership.actions import (
    Beat,
    ConsumerBeat,
    Join,
    JoinAnswer,
    Leave,
    Sync,
)
from moldau.client.settings import ConsumerSettings
from moldau.wire.embedded_protocol import PROTOCOL_TYPE
from moldau.wire.make import make


def join_request(settings: ConsumerSettings, action: Join) -> Any:
    return make(
        JoinGroupRequest,
        group_id=settings.group_id,
        session_timeout=settings.session_timeout_ms,
        rebalance_timeout=settings.max_poll_interval_ms,
        member_id=action.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            make(JoinGroupRequestProtocol, name=name, metadata=metadata)
            for name, metadata in action.protocols
        ),
        reason=action.reason,
    )


def join_answer(answer: Any) -> JoinAnswer:
    return JoinAnswer(
        answer.generation_id,
        answer.protocol_name or "",
        answer.leader,
        answer.member_id,
        {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        },
        answer.skip_assignment,
    )


def sync_request(settings: ConsumerSettings, action: Sync) -> Any:
    return make(
        SyncGroupRequest,
        group_id=settings.group_id,
        generation_id=action.generation,
        member_id=action.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=action.protocol,
        assignments=tuple(
            make(SyncGroupRequestAssignment, member_id=member, assignment=assignment)
            for member, assignment in action.assignments.items()
        ),
    )


def heartbeat_request(settings: ConsumerSettings, action: Beat) -> Any:
    return make(
        HeartbeatRequest,
        group_id=settings.group_id,
        generation_id=action.generation,
        member_id=action.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: ConsumerSettings, action: Leave) -> Any:
    identity = make(
        MemberIdentity,
        member_id=action.member_id,
        group_instance_id=settings.group_instance_id,
        reason=action.reason,
    )
    return make(LeaveGroupRequest, group_id=settings.group_id, members=(identity,))


def consumer_heartbeat_request(settings: ConsumerSettings, action: ConsumerBeat) -> Any:
    return make(
        ConsumerGroupHeartbeatRequest,
        group_id=settings.group_id,
        member_id=action.member_id,
        member_epoch=action.epoch,
        instance_id=settings.group_instance_id,
        rack_id=(settings.client_rack or None) if action.full else None,
        rebalance_timeout=settings.max_poll_interval_ms if action.full else -1,
        subscribed_topic_names=None if action.topics is None else tuple(sorted(action.topics)),
        subscribed_topic_regex=action.pattern,
        server_assignor=settings.group_remote_assignor if action.full else None,
        topic_partitions=None if action.owned is None else _topic_partitions(action.owned),
    )


def target_of(answer: Any) -> dict[UUID, tuple[int, ...]] | None:
    """The assignment that a heartbeat brought, if it did."""
    if answer.assignment is None:
        return None
    return {topic.topic_id: tuple(topic.partitions) for topic in answer.assignment.topic_partitions}


def _topic_partitions(owned: Mapping[UUID, tuple[int, ...]]) -> tuple[TopicPartitions, ...]:
    return tuple(
        make(TopicPartitions, topic_id=topic, partitions=numbers)
        for topic, numbers in owned.items()
    )

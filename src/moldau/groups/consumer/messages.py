"""ConsumerGroupHeartbeat messages: what is refused at once, and how answers are put together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from moldau.errors import ErrorCode, KafkaError, invalid_request
from moldau.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Ownership
from moldau.wire.make import make
from moldau.wire.times import milliseconds

_NO_TIME = timedelta(0)
_MEMBER_ID_IS_REQUIRED = 1
"""From this version on clients choose their member id themselves."""


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what no group could answer."""
    epoch = request.member_epoch
    if not request.member_id and (
        version >= _MEMBER_ID_IS_REQUIRED or epoch > 0 or epoch == LEAVE_EPOCH
    ):
        raise invalid_request("MemberId can't be empty.")
    for name in ("group_id", "instance_id", "rack_id"):
        if getattr(request, name) == "":
            raise invalid_request(f"{name.title().replace('_', '')} can't be empty.")
    if epoch == 0:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise invalid_request("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid_request(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if milliseconds(request.rebalance_timeout) == -1:
        raise invalid_request("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid_request("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid_request(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )


def owned_partitions(
    request: ConsumerGroupHeartbeatRequest,
) -> dict[UUID, frozenset[int]] | None:
    """What the member says that it holds; None when it does not say."""
    if request.topic_partitions is None:
        return None
    return {
        topic.topic_id: frozenset(topic.partitions)
        for topic in request.topic_partitions
        if topic.topic_id is not None and topic.partitions
    }


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member sent everything, as it does after it joined or lost an answer."""
    return (
        milliseconds(request.rebalance_timeout) != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def response(
    member_id: str, epoch: int, interval_ms: int, assigned: Ownership | None
) -> ConsumerGroupHeartbeatResponse:
    """A good answer; ``assigned`` only when the member needs to be told."""
    return make(
        ConsumerGroupHeartbeatResponse,
        throttle_time=_NO_TIME,
        error_code=ErrorCode.NONE,
        error_message=None,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=None if assigned is None else _assignment(assigned),
    )


def error_response(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return make(
        ConsumerGroupHeartbeatResponse,
        throttle_time=_NO_TIME,
        error_code=code,
        error_message=message or code.message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=_NO_TIME,
        assignment=None,
    )


def _assignment(assigned: Ownership) -> Assignment:
    return make(
        Assignment,
        topic_partitions=tuple(
            make(TopicPartitions, topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id])))
            for topic_id in sorted(assigned)
        ),
    )

"""ListPartitionReassignments (key 46, version 0): partitions whose replicas move (KIP-455).

Behaviour: of the partitions named, or of all (null), those that the controller knows to be on the
move. What does not exist is not listed.
Known deviations: replicas do not move between brokers yet, so nothing is listed but what a store of
an earlier cluster says. The request's timeout as in CreateTopics.
"""

from __future__ import annotations

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from moldau.broker.request import Request
from moldau.controller import OngoingReassignment
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.wire.make import make


async def handle(
    request: Request[ListPartitionReassignmentsRequest],
) -> ListPartitionReassignmentsResponse:
    partitions = None
    if request.body.topics is not None:
        partitions = [
            TopicPartition(topic.name, index)
            for topic in request.body.topics
            for index in topic.partition_indexes
        ]
    topics: dict[str, list[OngoingReassignment]] = {}
    for ongoing in await request.controller.ongoing_reassignments(partitions):
        topics.setdefault(ongoing.topic, []).append(ongoing)
    return make(
        ListPartitionReassignmentsResponse,
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=tuple(
            make(OngoingTopicReassignment, name=name, partitions=tuple(map(_partition, ongoing)))
            for name, ongoing in topics.items()
        ),
    )


def error_answer(
    _request: Request[ListPartitionReassignmentsRequest], error: KafkaError
) -> ListPartitionReassignmentsResponse:
    return make(
        ListPartitionReassignmentsResponse,
        error_code=error.code,
        error_message=error.message,
        topics=(),
    )


def _partition(ongoing: OngoingReassignment) -> OngoingPartitionReassignment:
    return make(
        OngoingPartitionReassignment,
        partition_index=ongoing.partition,
        replicas=ongoing.replicas,
        adding_replicas=ongoing.adding,
        removing_replicas=ongoing.removing,
    )

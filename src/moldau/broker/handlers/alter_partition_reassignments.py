"""AlterPartitionReassignments (key 45, versions 0-1): replicas on other brokers (KIP-455).

Behaviour: the controller decides, for each partition by itself. The assignment that a partition has
is accepted, brokers that do not exist are INVALID_REPLICA_ASSIGNMENT, and cancelling (null) what
does not move is NO_REASSIGNMENT_IN_PROGRESS.
Known deviations: replicas do not move between brokers yet; whatever would need that is refused with
INVALID_REPLICA_ASSIGNMENT. The request's timeout as in CreateTopics.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from moldau.broker.request import Request
from moldau.controller import NewReplicas, PartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


async def handle(
    request: Request[AlterPartitionReassignmentsRequest],
) -> AlterPartitionReassignmentsResponse:
    body = request.body
    results = await request.controller.alter_reassignments(
        [
            NewReplicas(
                topic=topic.name, partition=partition.partition_index, replicas=partition.replicas
            )
            for topic in body.topics
            for partition in topic.partitions
        ],
        allow_replication_factor_change=body.allow_replication_factor_change,
    )
    return make(
        AlterPartitionReassignmentsResponse,
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=_topics(body, results),
    )


def error_answer(
    request: Request[AlterPartitionReassignmentsRequest], error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return make(
        AlterPartitionReassignmentsResponse,
        allow_replication_factor_change=request.body.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=(),
    )


def _topics(
    body: AlterPartitionReassignmentsRequest, results: Sequence[PartitionResult]
) -> tuple[ReassignableTopicResponse, ...]:
    rest = iter(results)
    return tuple(
        make(
            ReassignableTopicResponse,
            name=topic.name,
            partitions=tuple(
                make(
                    ReassignablePartitionResponse,
                    partition_index=result.partition,
                    error_code=result.error,
                    error_message=result.message,
                )
                for result in islice(rest, len(topic.partitions))
            ),
        )
        for topic in body.topics
    )

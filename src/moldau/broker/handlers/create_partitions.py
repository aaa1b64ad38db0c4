"""CreatePartitions (key 37, versions 0-3): more partitions for existing topics.

Behaviour: the count is the new total and may only grow; assignments, if given, are for the new
partitions only.
Known deviations: Kafka counts the request's timeout until its controller begins; here it is over
when the answer is not there by then. Without one (0 or less) Kafka refuses at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

from moldau.broker.request import Request
from moldau.controller import NewPartitions, TopicResult
from moldau.errors import KafkaError
from moldau.wire.make import make

STRICT_QUOTA_SINCE = 3
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def handle(request: Request[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    results = await request.controller.create_partitions(
        [_new_partitions(topic) for topic in request.body.topics],
        validate_only=request.body.validate_only,
        mutator=request.mutator(strict=request.version >= STRICT_QUOTA_SINCE),
    )
    request.throttle_ms = max([request.throttle_ms, *(each.throttle_ms for each in results)])
    return _response(results)


def error_answer(
    request: Request[CreatePartitionsRequest], error: KafkaError
) -> CreatePartitionsResponse:
    return _response(
        TopicResult(name=topic.name, error=error.code, message=error.message)
        for topic in request.body.topics
    )


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    return NewPartitions(topic=topic.name, count=topic.count, assignments=assignments)


def _response(results: Iterable[TopicResult]) -> CreatePartitionsResponse:
    return make(
        CreatePartitionsResponse,
        results=tuple(
            make(
                CreatePartitionsTopicResult,
                name=result.name,
                error_code=result.error,
                error_message=result.message,
            )
            for result in results
        ),
    )

"""CreatePartitions (key 37, versions 0-3): more partitions for existing topics.

Behaviour: the count is the new total and may only grow; assignments, if given, are for the new
partitions only.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.controller import NewPartitions, TopicResult
from moldau.errors import KafkaError
from moldau.wire.make import make


async def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    topics = [_new_partitions(topic) for topic in request.topics]
    try:
        results = await context.broker.controller.create_partitions(
            topics, validate_only=request.validate_only
        )
    except KafkaError as error:
        results = [
            TopicResult(name=topic.topic, error=error.code, message=error.message)
            for topic in topics
        ]
    return make(
        CreatePartitionsResponse,
        throttle_time=NO_THROTTLE,
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


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    return NewPartitions(topic=topic.name, count=topic.count, assignments=assignments)

"""DeleteTopics (key 20, versions 1-6): remove topics, by name or (from version 6 on) by id.

Behaviour: a deleted topic is gone from the metadata when the answer comes; its logs are renamed at
once and their files removed after ``file.delete.delay.ms``. ``delete.topic.enable=false`` refuses
with TOPIC_DELETION_DISABLED.
Known deviations: none.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.controller import DeleteTopicResult
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID
from moldau.wire.make import make

FIRST_VERSION_WITH_DELETION_DISABLED = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    targets: list[str | UUID] = []
    results: list[DeleteTopicResult] = []
    for topic in request.topics:
        target = topic.topic_id or topic.name
        if target is None or (topic.topic_id and topic.name is not None):
            results.append(_ambiguous(topic))
        else:
            targets.append(target)
    try:
        results += await context.broker.controller.delete_topics(targets)
    except KafkaError as error:
        results += [_refused(context.header.api_version, target, error) for target in targets]
    return make(
        DeleteTopicsResponse,
        throttle_time=NO_THROTTLE,
        responses=tuple(
            make(
                DeletableTopicResult,
                name=result.name,
                topic_id=result.topic_id,
                error_code=result.error,
                error_message=result.message,
            )
            for result in results
        ),
    )


def _ambiguous(topic: DeleteTopicState) -> DeleteTopicResult:
    return DeleteTopicResult(
        name=topic.name,
        topic_id=topic.topic_id or NO_TOPIC_ID,
        error=ErrorCode.INVALID_REQUEST,
        message="A topic to delete is named either by its name or by its id.",
    )


def _refused(version: int, target: str | UUID, error: KafkaError) -> DeleteTopicResult:
    """The same refusal for every topic, in a code that the client's version knows."""
    code = error.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < FIRST_VERSION_WITH_DELETION_DISABLED:
        code = ErrorCode.INVALID_REQUEST
    if isinstance(target, UUID):
        return DeleteTopicResult(name=None, topic_id=target, error=code, message=error.message)
    return DeleteTopicResult(name=target, error=code, message=error.message)

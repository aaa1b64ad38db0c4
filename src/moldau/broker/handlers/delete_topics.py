"""DeleteTopics (key 20, versions 1-6): remove topics, by name or (from version 6 on) by id.

Behaviour: a deleted topic is gone from the metadata when the answer comes; its logs are renamed at
once and their files removed after ``file.delete.delay.ms``. ``delete.topic.enable=false`` refuses
with TOPIC_DELETION_DISABLED.
Known deviations: Kafka counts the request's timeout until its controller begins; here it is over
when the answer is not there by then. Without one (0 or less) Kafka refuses at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from moldau.broker.request import Request
from moldau.controller import DeleteTopicResult, TopicReference
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID
from moldau.wire.make import make

FIRST_VERSION_WITH_DELETION_DISABLED = 3
STRICT_QUOTA_SINCE = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def handle(request: Request[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    topics: list[TopicReference] = []
    results: list[DeleteTopicResult] = []
    for topic in request.body.topics:
        if topic.name is not None and topic.topic_id is not None:
            message = "You may not specify both topic name and topic id."
            results.append(_failed(topic, ErrorCode.INVALID_REQUEST, message))
        else:
            topics.append(TopicReference(topic.name, topic.topic_id or NO_TOPIC_ID))
    results += await request.controller.delete_topics(
        topics, mutator=request.mutator(strict=request.version >= STRICT_QUOTA_SINCE)
    )
    request.throttle_ms = max([request.throttle_ms, *(each.throttle_ms for each in results)])
    return _response(results)


def error_answer(request: Request[DeleteTopicsRequest], error: KafkaError) -> DeleteTopicsResponse:
    """Returns the same refusal for every topic, in a code that the client's version knows."""
    code = error.code
    if (
        code is ErrorCode.TOPIC_DELETION_DISABLED
        and request.version < FIRST_VERSION_WITH_DELETION_DISABLED
    ):
        code = ErrorCode.INVALID_REQUEST
    return _response(_failed(topic, code, error.message) for topic in request.body.topics)


def _failed(topic: DeleteTopicState, code: ErrorCode, message: str) -> DeleteTopicResult:
    topic_id = topic.topic_id or NO_TOPIC_ID
    return DeleteTopicResult(name=topic.name, topic_id=topic_id, error=code, message=message)


def _response(results: Iterable[DeleteTopicResult]) -> DeleteTopicsResponse:
    return make(
        DeleteTopicsResponse,
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

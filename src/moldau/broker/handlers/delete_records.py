"""DeleteRecords (key 21, versions 0-2): move the start of a log forward.

Behaviour: offset -1 means the high watermark; the answer is the new low watermark. A compacted-only
topic refuses with POLICY_VIOLATION, an offset beyond the high watermark with OFFSET_OUT_OF_RANGE.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.controller.topic_names import INTERNAL_TOPICS
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return make(
        DeleteRecordsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            make(
                DeleteRecordsTopicResult,
                name=topic.name,
                partitions=tuple(
                    _delete(context.broker, topic.name, wanted.partition_index, wanted.offset)
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _delete(broker: Broker, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.NONE, -1
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.partition(topic, index)
        if "delete" not in partition.log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        code = error.code
    return make(
        DeleteRecordsPartitionResult,
        partition_index=index,
        low_watermark=low_watermark,
        error_code=code,
    )

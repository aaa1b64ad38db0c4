"""DeleteRecords (key 21, versions 0-2): move the start of a log forward.

Behaviour: offset -1 means the high watermark; the answer is the new low watermark. A compacted-only
topic refuses with POLICY_VIOLATION, an offset beyond the high watermark with OFFSET_OUT_OF_RANGE.
The new start is on disk before the answer leaves; requests that come together share one write.
Known deviations: Kafka writes the new start down within a minute, and a crash before that brings
deleted records back.
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
from moldau.log import PartitionLog
from moldau.wire.make import make


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    broker = context.broker
    deletions = {
        topic.name: [
            _Deletion(broker, topic.name, wanted.partition_index, wanted.offset)
            for wanted in topic.partitions
        ]
        for topic in request.topics
    }
    if any(deletion.moved for group in deletions.values() for deletion in group):
        await broker.logs.checkpoint_log_start_offsets()
    return make(
        DeleteRecordsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            make(
                DeleteRecordsTopicResult,
                name=name,
                partitions=tuple(deletion.result() for deletion in group),
            )
            for name, group in deletions.items()
        ),
    )


class _Deletion:
    """What became of the request for one partition."""

    def __init__(self, broker: Broker, topic: str, index: int, offset: int) -> None:
        self._index = index
        self._code = ErrorCode.NONE
        self._low_watermark = -1
        self.moved: PartitionLog | None = None
        """The log whose start is another one now."""
        try:
            self._delete(broker, topic, offset)
        except KafkaError as error:
            self._code = error.code

    def _delete(self, broker: Broker, topic: str, offset: int) -> None:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.partition(topic, self._index)
        partition.check_leader()
        log = partition.log
        if log.config.compact and not log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        before = log.log_start_offset
        self._low_watermark = partition.delete_records(offset)
        if self._low_watermark != before:
            self.moved = log

    def result(self) -> DeleteRecordsPartitionResult:
        if self.moved is not None and self.moved.current.failure is not None:
            self._code, self._low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
        return make(
            DeleteRecordsPartitionResult,
            partition_index=self._index,
            low_watermark=self._low_watermark,
            error_code=self._code,
        )

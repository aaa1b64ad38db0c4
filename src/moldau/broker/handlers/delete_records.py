"""DeleteRecords (key 21, versions 0-2): move the start of a log forward.

Behaviour: offset -1 means the high watermark; the answer is the new low watermark. A compacted-only
topic refuses with POLICY_VIOLATION, an offset beyond the high watermark with OFFSET_OUT_OF_RANGE.
The new start is on disk before the answer leaves; requests that come together share one write.
Known deviations: Kafka writes the new start down within a minute, and a crash before that brings
deleted records back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.controller.topic_names import INTERNAL_TOPICS
from moldau.errors import ErrorCode, KafkaError
from moldau.log import PartitionLog
from moldau.wire.make import make

INVALID_LOW_WATERMARK = -1


async def handle(request: Request[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    broker = request.broker
    deletions = {
        topic.name: [
            _Deletion(broker, topic.name, partition.partition_index, partition.offset)
            for partition in topic.partitions
        ]
        for topic in request.body.topics
    }
    if any(deletion.moved for group in deletions.values() for deletion in group):
        await broker.logs.checkpoint_log_start_offsets()
    return _response(
        {name: [deletion.result() for deletion in group] for name, group in deletions.items()}
    )


def error_answer(
    request: Request[DeleteRecordsRequest], error: KafkaError
) -> DeleteRecordsResponse:
    return _response(
        {
            topic.name: [
                _result(partition.partition_index, INVALID_LOW_WATERMARK, error.code)
                for partition in topic.partitions
            ]
            for topic in request.body.topics
        }
    )


class _Deletion:
    """What became of the request for one partition."""

    def __init__(self, broker: Broker, topic: str, index: int, offset: int) -> None:
        self._index = index
        self._code = ErrorCode.NONE
        self._low_watermark = INVALID_LOW_WATERMARK
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
            return _result(self._index, INVALID_LOW_WATERMARK, ErrorCode.KAFKA_STORAGE_ERROR)
        return _result(self._index, self._low_watermark, self._code)


def _result(index: int, low_watermark: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return make(
        DeleteRecordsPartitionResult,
        partition_index=index,
        low_watermark=low_watermark,
        error_code=code,
    )


def _response(
    topics: Mapping[str, Sequence[DeleteRecordsPartitionResult]],
) -> DeleteRecordsResponse:
    return make(
        DeleteRecordsResponse,
        topics=tuple(
            make(DeleteRecordsTopicResult, name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )

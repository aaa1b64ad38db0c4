"""DeleteRecords (key 21, versions 0-2): move the start of a log forward.

Behaviour: offset -1 means the high watermark; the answer is the new low watermark. A compacted-only
topic refuses with POLICY_VIOLATION, an offset beyond the high watermark with OFFSET_OUT_OF_RANGE.
The new start is on disk before the answer leaves; requests that come together share one write. The
answer waits, for as long as the request says, until all replicas whose brokers are up have deleted
as much; then it is REQUEST_TIMED_OUT, and they will do so later.
Known deviations: Kafka writes the new start down within a minute, and a crash before that brings
deleted records back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

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
from moldau.machine.clock import Clock
from moldau.replication import Partition
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
    waiting = [one for group in deletions.values() for one in group if one.awaits_followers]
    if waiting:
        await _await_followers(waiting, request.body.timeout, broker.clock)
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


async def _await_followers(waiting: Sequence[_Deletion], within: timedelta, clock: Clock) -> None:
    """Returns when every deletion is settled, or the time is up."""
    over = asyncio.Event()
    left = len(waiting)

    def settled() -> None:
        nonlocal left
        left -= 1
        if not left:
            over.set()

    timer = clock.call_later(max(within.total_seconds(), 0.0), over.set)
    for deletion in waiting:
        deletion.wait(settled)
    try:
        await over.wait()
    finally:
        timer.cancel()
        for deletion in waiting:
            deletion.give_up()


class _Deletion:
    """What became of the request for one partition."""

    def __init__(self, broker: Broker, topic: str, index: int, offset: int) -> None:
        self._index = index
        self._code = ErrorCode.NONE
        self._low_watermark = INVALID_LOW_WATERMARK
        self._followed: Partition | None = None
        """The partition that waits for its followers."""
        self._on_settled: Callable[[], None] = _nothing
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
        if partition.low_watermark < self._low_watermark:
            self._followed = partition

    @property
    def awaits_followers(self) -> bool:
        return self._followed is not None

    def wait(self, on_settled: Callable[[], None]) -> None:
        """Call back once, when the followers have deleted as much or never will."""
        self._on_settled = on_settled
        if self._followed is not None:
            self._followed.park_deletion(self, self._low_watermark)

    def deleted(self, partition: Partition) -> None:
        self._followed = None
        if not partition.is_leader:
            self._fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._on_settled()

    def give_up(self) -> None:
        if self._followed is not None:
            self._followed.leave_deletion(self)
            self._fail(ErrorCode.REQUEST_TIMED_OUT)

    def _fail(self, code: ErrorCode) -> None:
        self._code = code
        self._low_watermark = INVALID_LOW_WATERMARK

    def result(self) -> DeleteRecordsPartitionResult:
        if self.moved is not None and self.moved.current.failure is not None:
            return _result(self._index, INVALID_LOW_WATERMARK, ErrorCode.KAFKA_STORAGE_ERROR)
        return _result(self._index, self._low_watermark, self._code)


def _nothing() -> None: ...


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

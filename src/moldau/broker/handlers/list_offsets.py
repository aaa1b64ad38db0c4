"""ListOffsets (key 2, versions 1-11): offsets by time, and the ends of a log.

Behaviour: -1 is the end that the reader may see (high watermark, last stable offset for
``read_committed``, log end for a follower), -2 the start, -3 the record with the largest timestamp,
-4 the start of what is local; a time from 0 on finds the first record at or after it, if the reader
may see it.
A special time that the version does not know is UNSUPPORTED_VERSION. A consumer that asks a new
leader for the end, or for what may lie behind it, is told OFFSET_NOT_AVAILABLE until the high
watermark has reached what there was at the election: it could be behind what consumers have seen
(KIP-207; before version 5 that is LEADER_NOT_AVAILABLE).
Known deviations: there are no remote segments: -5 (latest tiered) and -6 (earliest pending upload)
answer -1. If the log start lies behind all that match in a segment, the search goes on in the next
one; Kafka answers -1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.broker.turns import others_turn
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LongSearchError, TimeLookup, TimestampedOffset
from moldau.replication import Partition
from moldau.wire.make import make

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
FIRST_VERSION_OF = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
READ_COMMITTED = 1
NOTHING = TimestampedOffset(-1, -1, -1)


def handle(
    request: Request[ListOffsetsRequest],
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    body = request.body
    request.check_replica(body.replica_id)
    times_asked: Counter[tuple[str, int]] = Counter(
        (topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    )

    def look_up(
        topic: str, partition: ListOffsetsPartition, lookup: TimeLookup | None = None
    ) -> ListOffsetsPartitionResponse:
        timestamp = partition.timestamp
        try:
            if times_asked[topic, partition.partition_index] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if timestamp < 0 and not _is_known(timestamp, request.version):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            offset = _find(request.broker, body, topic, partition, lookup)
        except KafkaError as error:
            code = error.code
            if (
                code is ErrorCode.OFFSET_NOT_AVAILABLE
                and request.version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            ):
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _answer(partition, NOTHING, code)
        return _answer(partition, offset, ErrorCode.NONE)

    if any(_is_search(p.timestamp) for topic in body.topics for p in topic.partitions):
        return _search(request, look_up)
    return _response(body, look_up)


async def _search(
    request: Request[ListOffsetsRequest],
    look_up: Callable[[str, ListOffsetsPartition, TimeLookup], ListOffsetsPartitionResponse],
) -> ListOffsetsResponse:
    """Look into batches, with everybody else's turn after each partition; into those that hold much
    in a thread.
    """
    answers: dict[tuple[str, int], ListOffsetsPartitionResponse] = {}

    async def answer(topic: str, partition: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        lookup = TimeLookup()
        while True:
            try:
                return look_up(topic, partition, lookup)
            except LongSearchError as error:
                long_search = error.search
            try:
                await request.broker.long_checks.run(lookup.finish, long_search)
            except KafkaError as error:
                return _answer(partition, NOTHING, error.code)

    for topic in request.body.topics:
        for partition in topic.partitions:
            if _is_search(partition.timestamp):
                await others_turn()
            answers[topic.name, partition.partition_index] = await answer(topic.name, partition)
    return _response(
        request.body, lambda topic, partition: answers[topic, partition.partition_index]
    )


def error_answer(request: Request[ListOffsetsRequest], error: KafkaError) -> ListOffsetsResponse:
    return _response(
        request.body, lambda _topic, partition: _answer(partition, NOTHING, error.code)
    )


def _answer(
    partition: ListOffsetsPartition, offset: TimestampedOffset, code: ErrorCode
) -> ListOffsetsPartitionResponse:
    return make(
        ListOffsetsPartitionResponse,
        partition_index=partition.partition_index,
        error_code=code,
        timestamp=offset.timestamp,
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
    )


def _response(
    body: ListOffsetsRequest,
    answer: Callable[[str, ListOffsetsPartition], ListOffsetsPartitionResponse],
) -> ListOffsetsResponse:
    return make(
        ListOffsetsResponse,
        topics=tuple(
            make(
                ListOffsetsTopicResponse,
                name=topic.name,
                partitions=tuple(answer(topic.name, partition) for partition in topic.partitions),
            )
            for topic in body.topics
        ),
    )


def _is_search(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _is_known(special_timestamp: int, version: int) -> bool:
    first = FIRST_VERSION_OF.get(special_timestamp)
    return first is not None and first <= version


def _find(
    broker: Broker,
    body: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    lookup: TimeLookup | None,
) -> TimestampedOffset:
    partition = broker.partition(topic, wanted.partition_index)
    partition.check_leader(wanted.current_leader_epoch)
    log, timestamp = partition.log, wanted.timestamp
    end = _visible_end(partition, body)
    is_late = body.replica_id < 0 and not partition.knows_its_end
    if timestamp == LATEST:
        if is_late:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return TimestampedOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset, epoch = log.earliest()
        return TimestampedOffset(-1, offset, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        match = log.max_timestamp_offset(lookup)
    else:
        match = log.offset_for_timestamp(timestamp, lookup)
    if match is not None and match.offset < end:
        return match
    if is_late:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return NOTHING


def _visible_end(partition: Partition, body: ListOffsetsRequest) -> int:
    if body.replica_id >= 0:
        return partition.log.log_end_offset
    if body.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark

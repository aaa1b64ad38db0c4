"""ListOffsets (key 2, versions 1-11): offsets by time, and the ends of a log.

Behaviour: -1 is the end that the reader may see (high watermark, last stable offset for
``read_committed``, log end for a follower), -2 the start, -3 the record with the largest timestamp,
-4 the start of what is local; a time from 0 on finds the first record at or after it, if the reader
may see it.
A special time that the version does not know is UNSUPPORTED_VERSION.
Known deviations: there are no remote segments: -5 (latest tiered) and -6 (earliest pending upload)
answer -1. If the log start lies behind all that match in a segment, the search goes on in the next
one; Kafka answers -1.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.errors import ErrorCode, KafkaError
from moldau.log import TimestampedOffset
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
READ_COMMITTED = 1
NOTHING = TimestampedOffset(-1, -1, -1)


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    asked = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    return make(
        ListOffsetsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            make(
                ListOffsetsTopicResponse,
                name=topic.name,
                partitions=tuple(
                    _answer(
                        context,
                        request,
                        topic.name,
                        wanted,
                        asked[topic.name, wanted.partition_index],
                    )
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _answer(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    times_asked: int,
) -> ListOffsetsPartitionResponse:
    code, found = ErrorCode.NONE, NOTHING
    try:
        if times_asked > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if wanted.timestamp < 0 and not _is_known(wanted.timestamp, context.header.api_version):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        found = _find(context.broker, request, topic, wanted)
    except KafkaError as error:
        code = error.code
    return make(
        ListOffsetsPartitionResponse,
        partition_index=wanted.partition_index,
        error_code=code,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _is_known(special_timestamp: int, version: int) -> bool:
    first = FIRST_VERSION_OF.get(special_timestamp)
    return first is not None and first <= version


def _find(
    broker: Broker, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> TimestampedOffset:
    partition = broker.partition(topic, wanted.partition_index)
    partition.check_leader(wanted.current_leader_epoch)
    log, timestamp = partition.log, wanted.timestamp
    end = _visible_end(partition, request)
    if timestamp == LATEST:
        return TimestampedOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset, epoch = log.earliest()
        return TimestampedOffset(-1, offset, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(timestamp)
    return found if found is not None and found.offset < end else NOTHING


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id >= 0:
        return partition.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark

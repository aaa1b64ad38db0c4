"""OffsetForLeaderEpoch (key 23, versions 2-4): where an epoch ended (KIP-320).

Behaviour: an unknown or newer epoch is answered with -1 / -1; the request's own epoch is fenced
like a fetch's.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return make(
        OffsetForLeaderEpochResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            make(
                OffsetForLeaderTopicResult,
                topic=topic.topic,
                partitions=tuple(
                    _end_offset(context.broker, topic.topic, wanted) for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _end_offset(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    code, epoch, end_offset = ErrorCode.NONE, -1, -1
    try:
        partition = broker.partition(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        code = error.code
    return make(
        EpochEndOffset,
        error_code=code,
        partition=wanted.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )

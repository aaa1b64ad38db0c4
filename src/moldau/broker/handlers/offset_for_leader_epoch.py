"""OffsetForLeaderEpoch (key 23, versions 2-4): where an epoch ended (KIP-320).

Behaviour: an unknown or newer epoch is answered with -1 / -1; the request's own epoch is fenced
like a fetch's.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    broker = request.broker
    request.check_replica(request.body.replica_id)

    def end_offset(topic: str, partition: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            replica = broker.partition(topic, partition.partition)
            replica.check_leader(partition.current_leader_epoch)
            epoch, offset = replica.log.end_offset_for_epoch(partition.leader_epoch)
        except KafkaError as error:
            return _failed(partition, error)
        return make(
            EpochEndOffset,
            error_code=ErrorCode.NONE,
            partition=partition.partition,
            leader_epoch=epoch,
            end_offset=offset,
        )

    return _response(request.body, end_offset)


def error_answer(
    request: Request[OffsetForLeaderEpochRequest], error: KafkaError
) -> OffsetForLeaderEpochResponse:
    return _response(request.body, lambda _topic, partition: _failed(partition, error))


def _failed(partition: OffsetForLeaderPartition, error: KafkaError) -> EpochEndOffset:
    return make(
        EpochEndOffset,
        error_code=error.code,
        partition=partition.partition,
        leader_epoch=-1,
        end_offset=-1,
    )


def _response(
    body: OffsetForLeaderEpochRequest,
    answer: Callable[[str, OffsetForLeaderPartition], EpochEndOffset],
) -> OffsetForLeaderEpochResponse:
    return make(
        OffsetForLeaderEpochResponse,
        topics=tuple(
            make(
                OffsetForLeaderTopicResult,
                topic=topic.topic,
                partitions=tuple(answer(topic.topic, partition) for partition in topic.partitions),
            )
            for topic in body.topics
        ),
    )

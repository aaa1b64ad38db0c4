"""DescribeProducers (key 61, version 0): the producers a partition remembers (KIP-664).

Behaviour: every replica tells what it knows, leader or not: who looks for a transaction that hangs
compares them. Producers are those within ``producer.id.expiration.ms``. They are described a
hundred at a time, with everybody else's turn in between.
Known deviations: an answer has at most 100,000 producers; partitions that are one too many are
INVALID_REQUEST, and can be asked for by themselves.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.errors import ErrorCode, KafkaError, invalid_request
from moldau.log import ActiveProducer
from moldau.wire.make import make

MOST_PRODUCERS: Final = 100_000


async def handle(request: Request[DescribeProducersRequest]) -> DescribeProducersResponse:
    room = MOST_PRODUCERS
    topics: list[TopicResponse] = []
    for topic in request.body.topics:
        partitions: list[PartitionResponse] = []
        for index in topic.partition_indexes:
            try:
                producers = _producers(request, topic.name, index, room)
            except KafkaError as error:
                partitions.append(_failed(index, error))
                continue
            room -= len(producers)
            described = [
                make(ProducerState, **each._asdict()) async for each in in_turns(producers)
            ]
            partitions.append(
                make(
                    PartitionResponse,
                    partition_index=index,
                    error_code=ErrorCode.NONE,
                    error_message=None,
                    active_producers=tuple(described),
                )
            )
        topics.append(make(TopicResponse, name=topic.name, partitions=tuple(partitions)))
    return make(DescribeProducersResponse, topics=tuple(topics))


def _producers(
    request: Request[DescribeProducersRequest], topic: str, index: int, room: int
) -> list[ActiveProducer]:
    producers = request.broker.partition(topic, index).log.active_producers()
    if len(producers) > room:
        raise invalid_request(f"More than {MOST_PRODUCERS} producers: ask for fewer partitions")
    return producers


def error_answer(
    request: Request[DescribeProducersRequest], error: KafkaError
) -> DescribeProducersResponse:
    return make(
        DescribeProducersResponse,
        topics=tuple(
            make(
                TopicResponse,
                name=topic.name,
                partitions=tuple(_failed(index, error) for index in topic.partition_indexes),
            )
            for topic in request.body.topics
        ),
    )


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return make(
        PartitionResponse,
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        active_producers=(),
    )

"""DescribeProducers (key 61, version 0): the producers a partition remembers (KIP-664).

Behaviour: asked of the partition's leader; producers are those within
``producer.id.expiration.ms``.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[DescribeProducersRequest]) -> DescribeProducersResponse:
    broker = request.broker

    def describe(topic: str, index: int) -> PartitionResponse:
        try:
            partition = broker.partition(topic, index)
            partition.check_leader()
            producers = partition.log.active_producers()
        except KafkaError as error:
            return _failed(index, error)
        return make(
            PartitionResponse,
            partition_index=index,
            error_code=ErrorCode.NONE,
            error_message=None,
            active_producers=tuple(make(ProducerState, **p._asdict()) for p in producers),
        )

    return _response(request.body, describe)


def error_answer(
    request: Request[DescribeProducersRequest], error: KafkaError
) -> DescribeProducersResponse:
    return _response(request.body, lambda _topic, index: _failed(index, error))


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return make(
        PartitionResponse,
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        active_producers=(),
    )


def _response(
    body: DescribeProducersRequest, answer: Callable[[str, int], PartitionResponse]
) -> DescribeProducersResponse:
    return make(
        DescribeProducersResponse,
        topics=tuple(
            make(
                TopicResponse,
                name=topic.name,
                partitions=tuple(answer(topic.name, index) for index in topic.partition_indexes),
            )
            for topic in body.topics
        ),
    )

"""DescribeProducers (key 61, version 0): the producers a partition remembers (KIP-664).

Behaviour: asked of the partition's leader; producers are those within
``producer.id.expiration.ms``.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.errors import ErrorCode, KafkaError
from moldau.log import ActiveProducer
from moldau.wire.make import make


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return make(
        DescribeProducersResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            make(
                TopicResponse,
                name=topic.name,
                partitions=tuple(
                    _describe(context.broker, topic.name, index)
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    producers: list[ActiveProducer] = []
    code, message = ErrorCode.NONE, None
    try:
        partition = broker.partition(topic, index)
        partition.check_leader()
        producers = partition.log.active_producers()
    except KafkaError as error:
        code, message = error.code, error.message
    return make(
        PartitionResponse,
        partition_index=index,
        error_code=code,
        error_message=message,
        active_producers=tuple(make(ProducerState, **p._asdict()) for p in producers),
    )

"""ConsumerGroupDescribe (key 69, versions 0-1): state and members of groups under the new consumer
protocol (KIP-848).

Behaviour: each group succeeds or fails alone; GROUP_ID_NOT_FOUND for any other kind of group. Where
the protocol is switched off, UNSUPPORTED_VERSION for all, before anybody looks for a coordinator.
Known deviations: the newest member comes first; in Kafka the order is that of a hash map.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

from moldau.broker.acls import GROUP_OPERATIONS, NOT_REQUESTED
from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.describe import not_described
from moldau.wire.make import make


def handle(request: Request[ConsumerGroupDescribeRequest]) -> Answer:
    if not request.broker.config.serves_consumer_protocol:
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        return _response(not_described(name, unsupported) for name in request.body.group_ids)
    wants_operations = request.body.include_authorized_operations
    operations: Any = GROUP_OPERATIONS if wants_operations else NOT_REQUESTED

    def combine(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        return _response(
            group if group.error_code else replace(group, authorized_operations=operations)
            for group in groups
        )

    return gathered(
        [_describe(request.broker, group_id) for group_id in request.body.group_ids], combine
    )


def error_answer(
    request: Request[ConsumerGroupDescribeRequest], error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return _response(_refused(group_id, error) for group_id in request.body.group_ids)


def _describe(broker: Broker, group_id: str) -> Answer:
    if not group_id:
        return _refused(group_id, KafkaError(ErrorCode.INVALID_GROUP_ID))
    return broker.groups.submit(
        group_id,
        lambda shard, token, _now_ms: shard.consumer_group_describe(group_id, token),
        partial(_refused, group_id),
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return not_described(group_id, error.code, error.message)


def _response(groups: Iterable[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    return make(ConsumerGroupDescribeResponse, groups=tuple(groups))

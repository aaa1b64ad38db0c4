"""Heartbeat (key 12, versions 0-4): a member of a classic group is alive.

Behaviour: REBALANCE_IN_PROGRESS tells the member to join again. While the group's state is being
loaded every heartbeat is answered with success, as in Kafka: nobody's session expires meanwhile.
Known deviations: none.
"""

from __future__ import annotations

from functools import partial

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[HeartbeatRequest]) -> Answer:
    if not request.body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    return request.broker.groups.submit(
        request.body.group_id,
        lambda shard, token, now_ms: shard.heartbeat(request.body, token, now_ms),
        partial(error_answer, request),
    )


def error_answer(_request: Request[HeartbeatRequest], error: KafkaError) -> HeartbeatResponse:
    loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return make(HeartbeatResponse, error_code=ErrorCode.NONE if loading else error.code)

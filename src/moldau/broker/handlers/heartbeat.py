"""Heartbeat (key 12, versions 0-4): a member of a classic group is alive.

Behaviour: REBALANCE_IN_PROGRESS tells the member to join again. While the group's state is being
loaded every heartbeat is answered with success, as in Kafka: nobody's session expires meanwhile.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: HeartbeatRequest) -> Answer:
    if not request.group_id:
        return _answer(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.heartbeat(request, token, now_ms),
        _answer,
    )


def _answer(code: ErrorCode) -> HeartbeatResponse:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return make(HeartbeatResponse, throttle_time=NO_THROTTLE, error_code=code)

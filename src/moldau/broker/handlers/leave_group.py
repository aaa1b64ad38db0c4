"""LeaveGroup (key 13, versions 0-5): members go; static ones may be sent away by an administrator.

Behaviour: each member succeeds or fails alone; before version 3 there is one member, and its error
is the answer's.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: LeaveGroupRequest) -> Answer:
    if not request.group_id:
        return _error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.leave_group(request, token, now_ms),
        _error,
    )


def _error(code: ErrorCode) -> LeaveGroupResponse:
    return make(LeaveGroupResponse, throttle_time=NO_THROTTLE, error_code=code, members=())

"""LeaveGroup (key 13, versions 0-5): members go; static ones may be sent away by an administrator.

Behaviour: each member succeeds or fails alone; before version 3 there is one member, and its error
is the answer's.
Known deviations: none.
"""

from __future__ import annotations

from functools import partial

from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse

from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[LeaveGroupRequest]) -> Answer:
    if not request.body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    return request.broker.groups.submit(
        request.body.group_id,
        lambda shard, token, now_ms: shard.leave_group(request.body, token, now_ms),
        partial(error_answer, request),
    )


def error_answer(_request: Request[LeaveGroupRequest], error: KafkaError) -> LeaveGroupResponse:
    return make(LeaveGroupResponse, error_code=error.code, members=())

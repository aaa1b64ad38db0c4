"""JoinGroup (key 11, versions 0-9): become, or stay, a member of a classic group.

Behaviour: the answer waits until all members have joined, or the rebalance timeout is over. From
version 4 on a member without an id is given one first (MEMBER_ID_REQUIRED, KIP-394); from 5 on
members may be static (KIP-345).
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make

FIRST_VERSION_WITHOUT_PROTOCOL = 7
"""From here on the name of the protocol may be null."""


def handle(context: RequestContext, request: JoinGroupRequest) -> Answer:
    version = context.header.api_version

    def error(code: ErrorCode) -> JoinGroupResponse:
        return make(
            JoinGroupResponse,
            throttle_time=NO_THROTTLE,
            error_code=code,
            generation_id=-1,
            protocol_type=None,
            protocol_name=None if version >= FIRST_VERSION_WITHOUT_PROTOCOL else "",
            leader="",
            member_id=request.member_id,
            members=(),
        )

    if not request.group_id:
        return error(ErrorCode.INVALID_GROUP_ID)
    client = context.client
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.join_group(request, token, now_ms, client, version),
        error,
    )

"""SyncGroup (key 14, versions 0-5): hand in the assignment (the leader) and get one's own.

Behaviour: the answer waits for the leader's assignment, and until that is stored.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(context: RequestContext, request: SyncGroupRequest) -> Answer:
    version = context.header.api_version

    def error(code: ErrorCode) -> SyncGroupResponse:
        return make(SyncGroupResponse, throttle_time=NO_THROTTLE, error_code=code, assignment=b"")

    if version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        # KIP-559 made them mandatory, although the schema lets them be null.
        return error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.sync_group(request, token, now_ms, version),
        error,
    )

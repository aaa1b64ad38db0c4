"""OffsetDelete (key 47, version 0): forget committed offsets (KIP-496).

Behaviour: each partition succeeds or fails alone; a topic that the group still reads is refused
with GROUP_SUBSCRIBED_TO_TOPIC.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Answer:
    if not request.group_id:
        return _error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.offset_delete(request, token, now_ms),
        _error,
    )


def _error(code: ErrorCode) -> OffsetDeleteResponse:
    return make(OffsetDeleteResponse, error_code=code, throttle_time=NO_THROTTLE, topics=())

"""DeleteGroups (key 42, versions 0-2): remove groups without members, and their offsets (KIP-229).

Behaviour: each group succeeds or fails alone: NON_EMPTY_GROUP while it has members.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Answer:
    return gathered(
        [_delete(context, group_id) for group_id in dict.fromkeys(request.groups_names)],
        lambda results: make(
            DeleteGroupsResponse, throttle_time=NO_THROTTLE, results=tuple(results)
        ),
    )


def _delete(context: RequestContext, group_id: str) -> Answer:
    def error(code: ErrorCode) -> DeletableGroupResult:
        return make(DeletableGroupResult, group_id=group_id, error_code=code)

    if not group_id:
        return error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        group_id,
        lambda shard, token, now_ms: shard.delete_group(group_id, token, now_ms),
        error,
    )

"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Behaviour: filters by state (version 4, KIP-518) and by type (version 5, KIP-848), both without
regard to case. While one of the shards is being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    groups: list[ListedGroup] = []
    code = ErrorCode.NONE
    for host in context.broker.groups.hosts:
        if host.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            code = host.refusal
        elif not host.refusal:
            groups += host.shard.list_groups(request.states_filter, request.types_filter)
    return make(
        ListGroupsResponse,
        throttle_time=NO_THROTTLE,
        error_code=code,
        groups=() if code else tuple(groups),
    )

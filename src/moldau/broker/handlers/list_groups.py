"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Behaviour: filters by state (version 4, KIP-518) and by type (version 5, KIP-848), both without
regard to case. While one of the shards is being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.
Known deviations: the newest group of a kind comes first; in Kafka the order is a hash map's.
"""

from __future__ import annotations

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.listings import GroupFilter
from moldau.wire.make import make


async def handle(request: Request[ListGroupsRequest]) -> ListGroupsResponse:
    groups: list[ListedGroup] = []
    wanted = GroupFilter(request.body.states_filter, request.body.types_filter)
    for host in tuple(request.broker.groups.hosts):
        if host.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise KafkaError(host.refusal)
        if not host.refusal:
            groups += [group async for group in in_turns(host.shard.list_groups()) if wanted(group)]
    return make(ListGroupsResponse, error_code=ErrorCode.NONE, groups=tuple(groups))


def error_answer(_request: Request[ListGroupsRequest], error: KafkaError) -> ListGroupsResponse:
    return make(ListGroupsResponse, error_code=error.code, groups=())

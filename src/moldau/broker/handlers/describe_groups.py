"""DescribeGroups (key 15, versions 0-6): state and members of classic groups.

Behaviour: each group succeeds or fails alone. A group that does not exist is answered as dead, from
version 6 on with GROUP_ID_NOT_FOUND as well.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.static.primitive import i32

from moldau.broker.acl_operations import GROUP_OPERATIONS
from moldau.broker.context import NO_THROTTLE, NOT_REQUESTED, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Answer:
    operations = i32(GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED)

    def combine(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        return make(
            DescribeGroupsResponse,
            throttle_time=NO_THROTTLE,
            groups=tuple(
                group if group.error_code else replace(group, authorized_operations=operations)
                for group in groups
            ),
        )

    return gathered([_describe(context, group_id) for group_id in request.groups], combine)


def _describe(context: RequestContext, group_id: str) -> Answer:
    version = context.header.api_version

    def error(code: ErrorCode) -> DescribedGroup:
        return make(
            DescribedGroup,
            error_code=code,
            error_message=None,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
            authorized_operations=NOT_REQUESTED,
        )

    if not group_id:
        return error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        group_id,
        lambda shard, token, _now_ms: shard.describe_group(group_id, token, version),
        error,
    )

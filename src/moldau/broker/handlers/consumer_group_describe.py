"""ConsumerGroupDescribe (key 69, versions 0-1): state and members of groups under the new consumer
protocol (KIP-848).

Behaviour: each group succeeds or fails alone; GROUP_ID_NOT_FOUND for any other kind of group.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kio.static.primitive import i32

from moldau.broker.acl_operations import GROUP_OPERATIONS
from moldau.broker.context import NO_THROTTLE, NOT_REQUESTED, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Answer:
    operations = i32(GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED)

    def combine(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        return make(
            ConsumerGroupDescribeResponse,
            throttle_time=NO_THROTTLE,
            groups=tuple(
                group if group.error_code else replace(group, authorized_operations=operations)
                for group in groups
            ),
        )

    return gathered([_describe(context, group_id) for group_id in request.group_ids], combine)


def _describe(context: RequestContext, group_id: str) -> Answer:
    def error(code: ErrorCode) -> DescribedGroup:
        return make(
            DescribedGroup,
            error_code=code,
            error_message=code.message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
            authorized_operations=NOT_REQUESTED,
        )

    if not group_id:
        return error(ErrorCode.INVALID_GROUP_ID)
    return context.broker.groups.submit(
        group_id,
        lambda shard, token, _now_ms: shard.consumer_group_describe(group_id, token),
        error,
    )

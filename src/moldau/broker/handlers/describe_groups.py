"""DescribeGroups (key 15, versions 0-6): state and members of classic groups.

Behaviour: each group succeeds or fails alone. A group that does not exist is answered as dead, from
version 6 on with GROUP_ID_NOT_FOUND as well. The empty group id is one like any other.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse

from moldau.broker.acls import GROUP_OPERATIONS, NOT_REQUESTED
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(request: Request[DescribeGroupsRequest]) -> Answer:
    wants_operations = request.body.include_authorized_operations
    operations: Any = GROUP_OPERATIONS if wants_operations else NOT_REQUESTED

    def combine(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        return _response(
            group if group.error_code else replace(group, authorized_operations=operations)
            for group in groups
        )

    return gathered([_describe(request, group_id) for group_id in request.body.groups], combine)


def error_answer(
    request: Request[DescribeGroupsRequest], error: KafkaError
) -> DescribeGroupsResponse:
    return _response(_failed(group_id, error) for group_id in request.body.groups)


def _describe(request: Request[DescribeGroupsRequest], group_id: str) -> Answer:
    return request.broker.groups.submit(
        group_id,
        lambda shard, token, _now_ms: shard.describe_group(group_id, token, request.version),
        partial(_failed, group_id),
    )


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return make(
        DescribedGroup,
        error_code=error.code,
        error_message=None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=NOT_REQUESTED,
    )


def _response(groups: Iterable[DescribedGroup]) -> DescribeGroupsResponse:
    return make(DescribeGroupsResponse, groups=tuple(groups))

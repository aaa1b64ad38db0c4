"""DeleteGroups (key 42, versions 0-2): remove groups without members, and their offsets (KIP-229).

Behaviour: each group succeeds or fails alone: NON_EMPTY_GROUP while it has members. The empty group
id is one like any other: old clients commit offsets with it.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(request: Request[DeleteGroupsRequest]) -> Answer:
    return gathered(
        [_delete(request.broker, group_id) for group_id in _group_ids(request.body)], _response
    )


def error_answer(request: Request[DeleteGroupsRequest], error: KafkaError) -> DeleteGroupsResponse:
    return _response(_failed(group_id, error) for group_id in _group_ids(request.body))


def _group_ids(body: DeleteGroupsRequest) -> Iterable[str]:
    return dict.fromkeys(body.groups_names)


def _delete(broker: Broker, group_id: str) -> Answer:
    return broker.groups.submit(
        group_id,
        lambda shard, token, now_ms: shard.delete_group(group_id, token, now_ms),
        partial(_failed, group_id),
    )


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return make(DeletableGroupResult, group_id=group_id, error_code=error.code)


def _response(results: Iterable[DeletableGroupResult]) -> DeleteGroupsResponse:
    return make(DeleteGroupsResponse, results=tuple(results))

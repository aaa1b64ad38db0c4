"""SyncGroup (key 14, versions 0-5): hand in the assignment (the leader) and get one's own.

Behaviour: the answer waits for the leader's assignment, and until that is stored.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(request: Request[SyncGroupRequest]) -> Answer:
    body, version = request.body, request.version
    if version >= FIRST_VERSION_WITH_PROTOCOL and (
        body.protocol_type is None or body.protocol_name is None
    ):
        # KIP-559 made them mandatory, although the schema lets them be null.
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    answer = request.broker.groups.submit(
        body.group_id,
        lambda shard, token, now_ms: shard.sync_group(body, token, now_ms, version),
        partial(error_answer, request),
    )
    # Whoever waits for the leader need not hold on to what only a leader's request should have.
    request.body = replace(body, assignments=())
    return answer


def error_answer(_request: Request[SyncGroupRequest], error: KafkaError) -> SyncGroupResponse:
    return make(SyncGroupResponse, error_code=error.code, assignment=b"")

"""JoinGroup (key 11, versions 0-9): become, or stay, a member of a classic group.

Behaviour: the answer waits until all members have joined, or the rebalance timeout is over. From
version 4 on a member without an id is given one first (MEMBER_ID_REQUIRED, KIP-394); from 5 on
members may be static (KIP-345).
Known deviations: metadata of more than 4 MB, which no record could hold, is INVALID_REQUEST; in
Kafka the leader's assignment fails later. When members take too much memory on this broker, new
ones are told COORDINATOR_NOT_AVAILABLE (``groups/memory.py``), as they are by the other APIs of
groups; Kafka runs out of memory.
"""

from __future__ import annotations

from functools import partial

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse

from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

FIRST_VERSION_WITHOUT_PROTOCOL = 7
"""From here on the name of the protocol may be null."""
MAX_PROTOCOLS = 1000
"""Clients have a handful; they are compared with those of every other member."""
MAX_METADATA_BYTES = 4 * 1024 * 1024
"""Of all protocols of a member: what the group chooses has to fit into a record, as in Kafka."""


def handle(request: Request[JoinGroupRequest]) -> Answer:
    if not request.body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if len(request.body.protocols) > MAX_PROTOCOLS:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if sum([len(protocol.metadata) for protocol in request.body.protocols]) > MAX_METADATA_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return request.broker.groups.submit(
        request.body.group_id,
        lambda shard, token, now_ms: shard.join_group(
            request.body, token, now_ms, request.client, request.version
        ),
        partial(error_answer, request),
    )


def error_answer(request: Request[JoinGroupRequest], error: KafkaError) -> JoinGroupResponse:
    return make(
        JoinGroupResponse,
        error_code=error.code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if request.version >= FIRST_VERSION_WITHOUT_PROTOCOL else "",
        leader="",
        member_id=request.body.member_id,
        members=(),
    )

"""ConsumerGroupHeartbeat (key 68, versions 0-1): join, stay in and leave a group under the new
consumer protocol (KIP-848).

Behaviour: the coordinator assigns partitions; the answer carries the member's epoch and, when it
changed, its assignment. Version 1 has subscriptions by pattern and member ids made by the client.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer:
    client = context.client
    version = context.header.api_version
    return context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.consumer_group_heartbeat(
            request, token, now_ms, client, version
        ),
        _error,
    )


def _error(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return make(
        ConsumerGroupHeartbeatResponse,
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=code.message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=NO_THROTTLE,
        assignment=None,
    )

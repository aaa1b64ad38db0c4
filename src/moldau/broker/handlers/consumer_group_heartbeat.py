"""ConsumerGroupHeartbeat (key 68, versions 0-1): join, stay in and leave a group under the new
consumer protocol (KIP-848).

Behaviour: the coordinator assigns partitions; the answer carries the member's epoch and, when it
changed, its assignment. Version 1 has subscriptions by pattern and member ids made by the client.
Where the protocol is switched off, UNSUPPORTED_VERSION, before anybody looks for a coordinator.
A new pattern is resolved in the background: the member hears of the topics with its next heartbeat.
Known deviations: until then the answer has a heartbeat interval of 100 ms, in Kafka the usual one.
New topics reach patterns after a second; Kafka may take 10, and matches at most that often.
"""

from __future__ import annotations

from functools import partial

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse

from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import ErrorCode, KafkaError, invalid_request
from moldau.wire.make import make

MAX_SUBSCRIBED_TOPICS = 10_000
"""Every change of the group looks at all of them again."""


def handle(request: Request[ConsumerGroupHeartbeatRequest]) -> Answer:
    if not request.broker.config.serves_consumer_protocol:
        return _failed(ErrorCode.UNSUPPORTED_VERSION, None)
    if len(request.body.subscribed_topic_names or ()) > MAX_SUBSCRIBED_TOPICS:
        raise invalid_request(f"A member subscribes to at most {MAX_SUBSCRIBED_TOPICS} topics.")
    return request.broker.groups.submit(
        request.body.group_id,
        lambda shard, token, now_ms: shard.consumer_group_heartbeat(
            request.body, token, now_ms, request.client, request.version
        ),
        partial(error_answer, request),
    )


def error_answer(
    _request: Request[ConsumerGroupHeartbeatRequest], error: KafkaError
) -> ConsumerGroupHeartbeatResponse:
    return _failed(error.code, error.message)


def _failed(code: ErrorCode, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return make(
        ConsumerGroupHeartbeatResponse,
        error_code=code,
        error_message=message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=0,
        assignment=None,
    )

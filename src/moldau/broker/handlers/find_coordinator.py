"""FindCoordinator (key 10, versions 0-6): who coordinates a group or a transaction.

Behaviour: each key is answered on its own; an unknown key type is INVALID_REQUEST. The offsets
topic is created when the first group is asked for, and the answer waits for it.
Known deviations: Kafka answers COORDINATOR_NOT_AVAILABLE while it creates the topic, and the client
asks again. Share groups are not served yet: their keys are answered with that code, too.
Transactions are not served yet: TRANSACTIONAL_ID_AUTHORIZATION_FAILED with a message. It is the one
code by which Java's client, librdkafka and ours all give up at once; after any other, some of them
ask again until the time of the call is up.
"""

from __future__ import annotations

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node
from moldau.wire.make import make

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOBODY = Node(-1, "", -1)
_REFUSALS = {
    TRANSACTION: KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "This cluster does not serve transactions: no transactional.id may be used.",
    ),
    SHARE: KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE),
}


async def handle(request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    body = request.body
    if body.key_type != GROUP:
        raise _REFUSALS.get(body.key_type) or KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {int(body.key_type)}"
        )
    topic = request.broker.groups.topic
    if body.coordinator_keys and not topic.exists:
        try:
            await topic.create()
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
    return make(
        FindCoordinatorResponse,
        coordinators=tuple(_find(request, group_id) for group_id in body.coordinator_keys),
    )


def error_answer(
    request: Request[FindCoordinatorRequest], error: KafkaError
) -> FindCoordinatorResponse:
    return make(
        FindCoordinatorResponse,
        coordinators=tuple(
            _coordinator(key, NOBODY, error) for key in request.body.coordinator_keys
        ),
    )


def _find(request: Request[FindCoordinatorRequest], group_id: str) -> Coordinator:
    broker = request.broker
    groups, metadata = broker.groups, broker.metadata
    topic = metadata.topics.get(groups.topic.name)  # may be on its way to this broker, or going
    state = None if topic is None else topic.partitions.get(groups.partition_of(group_id))
    leader = -1 if state is None else state.leader
    for node in metadata.nodes(request.connection.listener):
        if node.id == leader:
            return _coordinator(group_id, node)
    return _coordinator(group_id, NOBODY, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _coordinator(key: str, node: Node, error: KafkaError | None = None) -> Coordinator:
    return make(
        Coordinator,
        key=key,
        node_id=node.id,
        host=node.host,
        port=node.port,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message="" if error is None else error.message,
    )

"""FindCoordinator (key 10, versions 0-6): who coordinates a group or a transaction.

Behaviour: each key is answered on its own; an unknown key type is INVALID_REQUEST. The internal
topic is created when the first group, or the first transactional id, is asked for, and the answer
waits for it.
Known deviations: Kafka answers COORDINATOR_NOT_AVAILABLE while it creates the topic, and the client
asks again. Share groups are not served yet: their keys are answered with that code, too.
"""

from __future__ import annotations

from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from moldau.broker.request import Request
from moldau.controller import NO_LEADER
from moldau.coordinators import Coordinator as KeyCoordinator
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node
from moldau.wire.make import make

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOBODY = Node(-1, "", -1)


async def handle(request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    body = request.body
    coordinator: KeyCoordinator[Any]
    if body.key_type == GROUP:
        coordinator = request.broker.groups
    elif body.key_type == TRANSACTION:
        coordinator = request.broker.transactions
    elif body.key_type == SHARE:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {int(body.key_type)}"
        )
    topic = coordinator.topic
    if body.coordinator_keys and not topic.exists:
        try:
            await topic.create()
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
    return make(
        FindCoordinatorResponse,
        coordinators=tuple(_find(request, coordinator, key) for key in body.coordinator_keys),
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


def _find(
    request: Request[FindCoordinatorRequest], coordinator: KeyCoordinator[Any], key: str
) -> Coordinator:
    metadata = request.broker.metadata
    # Its topic may be on its way here, or going.
    state = metadata.partition(coordinator.topic.name, coordinator.partition_of(key))
    leader = NO_LEADER if state is None else state.leader
    for node in metadata.nodes(request.connection.listener):
        if node.id == leader:
            return _coordinator(key, node)
    return _coordinator(key, NOBODY, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


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

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

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.offsets_topic import OFFSETS_TOPIC
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node
from moldau.wire.make import make

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOBODY = Node(-1, "", -1)
_REFUSALS = {
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    SHARE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_NO_TRANSACTIONS = "This cluster does not serve transactions: no transactional.id may be used."


async def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if request.key_type == GROUP and request.coordinator_keys:
        coordinators = await _find(context, request.coordinator_keys)
    else:
        code = _REFUSALS.get(request.key_type, ErrorCode.INVALID_REQUEST)
        coordinators = [_answer(key, NOBODY, code) for key in request.coordinator_keys]
    return make(
        FindCoordinatorResponse, throttle_time=NO_THROTTLE, coordinators=tuple(coordinators)
    )


async def _find(context: RequestContext, groups: tuple[str, ...]) -> list[Coordinator]:
    topic = context.broker.groups.offsets_topic
    if not topic.exists:
        try:
            await topic.create()
        except KafkaError:
            return [_answer(key, NOBODY, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in groups]
    return [_find_one(context, group) for group in groups]


def _find_one(context: RequestContext, group: str) -> Coordinator:
    broker = context.broker
    state = broker.metadata.topics[OFFSETS_TOPIC].partitions.get(broker.groups.partition_of(group))
    leader = -1 if state is None else state.leader
    for node in broker.metadata.nodes(context.listener):
        if node.id == leader:
            return _answer(group, node, ErrorCode.NONE)
    return _answer(group, NOBODY, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _answer(key: str, node: Node, code: ErrorCode) -> Coordinator:
    message = code.message if code else ""
    if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        message = _NO_TRANSACTIONS
    return make(
        Coordinator,
        key=key,
        node_id=node.id,
        host=node.host,
        port=node.port,
        error_code=code,
        error_message=message,
    )

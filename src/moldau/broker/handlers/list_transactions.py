"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates
(KIP-664).

Behaviour: restricted to states, to producer ids, to what runs longer (version 1) and to ids that
match a pattern (version 2). States that there are not are named in the answer. While the state of a
partition is being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState

from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.coordinators import HostState
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.patterns import matching
from moldau.transactions.listing import TransactionFilter, known_states, unknown_states
from moldau.transactions.metadata import TransactionMetadata
from moldau.wire.make import make


async def handle(request: Request[ListTransactionsRequest]) -> ListTransactionsResponse:
    body, broker = request.body, request.broker
    hosts = broker.transactions.hosts
    if any(host.state is HostState.LOADING for host in hosts):
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    wanted = TransactionFilter(
        known_states(body.state_filters),
        frozenset(body.producer_id_filters),
        body.duration_filter,
    )
    now_ms = broker.clock.now_ms()
    found: list[TransactionMetadata] = []
    async for host in in_turns(tuple(hosts)):
        found += host.shard.list_transactions(wanted, now_ms)
    if body.transactional_id_pattern:
        ids = matching(body.transactional_id_pattern, [each.transactional_id for each in found])
        found = [each for each in found if each.transactional_id in ids]
    states = tuple([_listed(each) async for each in in_turns(found)])
    return _response(ErrorCode.NONE, unknown_states(body.state_filters), states)


def error_answer(
    _request: Request[ListTransactionsRequest], error: KafkaError
) -> ListTransactionsResponse:
    return _response(error.code)


def _listed(metadata: TransactionMetadata) -> TransactionState:
    return make(
        TransactionState,
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        transaction_state=metadata.state.label,
    )


def _response(
    code: ErrorCode, unknown: tuple[str, ...] = (), states: tuple[TransactionState, ...] = ()
) -> ListTransactionsResponse:
    return make(
        ListTransactionsResponse,
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=states,
    )

"""EndTxn (key 26, versions 0-5): commit or abort a transaction.

Behaviour: answered when the decision is stored on all in-sync replicas; the markers follow, and
until all are written the next transaction is CONCURRENT_TRANSACTIONS. From version 5 on every end
raises the producer's epoch, and the answer has the id and epoch to go on with (KIP-890).
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse

from moldau.broker.old_producers import known_to_producers
from moldau.broker.request import Request
from moldau.broker.transaction_coordinator import with_producer_id
from moldau.errors import ErrorCode, KafkaError
from moldau.transactions.metadata import TransactionVersion
from moldau.transactions.rules import Producer
from moldau.transactions.shard import ProducerIdResult
from moldau.wire.make import make

FIRST_WITH_FENCED = 2
"""Before it producers do not know PRODUCER_FENCED."""
FIRST_WITH_BUMP = 5


async def handle(request: Request[EndTxnRequest]) -> EndTxnResponse:
    body = request.body
    if not body.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    bumps = request.version >= FIRST_WITH_BUMP
    result: ProducerIdResult = await with_producer_id(
        request.broker,
        body.transactional_id,
        lambda shard, token, now_ms, new_producer_id: shard.end_transaction(
            body.transactional_id,
            Producer(body.producer_id, body.producer_epoch),
            token,
            now_ms,
            commit=body.committed,
            version=TransactionVersion.TV_2 if bumps else TransactionVersion.TV_0,
            new_producer_id=new_producer_id,
        ),
    )
    code = known_to_producers(result.error, knows_fenced=request.version >= FIRST_WITH_FENCED)
    return _response(code, result.producer_id, result.producer_epoch)


def error_answer(_request: Request[EndTxnRequest], error: KafkaError) -> EndTxnResponse:
    return _response(error.code, -1, -1)


def _response(code: ErrorCode, producer_id: int, epoch: int) -> EndTxnResponse:
    return make(EndTxnResponse, error_code=code, producer_id=producer_id, producer_epoch=epoch)

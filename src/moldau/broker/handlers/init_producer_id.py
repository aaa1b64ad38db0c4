"""InitProducerId (key 22, versions 0-5): an id and epoch for an idempotent producer, or for one of
transactions.

Behaviour: every call without a transactional id gets a fresh id with epoch 0. With one the epoch
rises, which fences the producers before; an open transaction of theirs is aborted first, and the
answer is CONCURRENT_TRANSACTIONS as long as that takes. A producer that names its id and epoch goes
on after an error (KIP-360). When the epochs of an id are used up the producer gets another id.
Known deviations: such a producer that asks again after a change of coordinators is answered as
before it; Kafka, which does not store the epoch before, fences it. One that names an epoch before
that of the open transaction is fenced; Kafka aborts the transaction, which is another producer's.
"""

from __future__ import annotations

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from moldau.broker.old_producers import known_to_producers
from moldau.broker.request import Request
from moldau.broker.transaction_coordinator import next_producer_id, with_producer_id
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make
from moldau.wire.times import milliseconds

FIRST_WITH_FENCED = 4
"""Before it producers do not know PRODUCER_FENCED."""
_NONE = -1


async def handle(request: Request[InitProducerIdRequest]) -> InitProducerIdResponse:
    body = request.body
    if (body.producer_id == _NONE) != (body.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transactional_id = body.transactional_id
    if transactional_id is None:
        return _response(ErrorCode.NONE, await next_producer_id(request.broker), 0)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    # A broker without transactions never needs them.
    from moldau.transactions.rules import Producer
    from moldau.transactions.shard import ProducerIdResult

    expected = Producer(body.producer_id, body.producer_epoch)
    result: ProducerIdResult = await with_producer_id(
        request.broker,
        transactional_id,
        lambda shard, token, now_ms, new_producer_id: shard.init_producer_id(
            transactional_id,
            milliseconds(body.transaction_timeout),
            None if body.producer_id == _NONE else expected,
            token,
            now_ms,
            new_producer_id,
        ),
    )
    code = known_to_producers(result.error, knows_fenced=request.version >= FIRST_WITH_FENCED)
    return _response(code, result.producer_id, result.producer_epoch)


def error_answer(
    _request: Request[InitProducerIdRequest], error: KafkaError
) -> InitProducerIdResponse:
    return _response(error.code, -1, -1)


def _response(code: ErrorCode, producer_id: int, epoch: int) -> InitProducerIdResponse:
    return make(
        InitProducerIdResponse, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )

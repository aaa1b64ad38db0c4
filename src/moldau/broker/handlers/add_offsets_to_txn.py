"""AddOffsetsToTxn (key 25, versions 0-4): offsets of a group take part in a transaction.

Behaviour: the partition of ``__consumer_offsets`` that the group belongs to is added, as by
AddPartitionsToTxn. Producers under KIP-890 go to the group at once.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from moldau.broker.add_partitions_to_txn import ask_here
from moldau.broker.group_coordinator import OFFSETS_TOPIC
from moldau.broker.old_producers import known_to_producers
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.transactions.metadata import TransactionVersion
from moldau.transactions.rules import Producer
from moldau.wire.make import make

FIRST_WITH_FENCED = 2
"""Before it producers do not know PRODUCER_FENCED."""


def handle(request: Request[AddOffsetsToTxnRequest]) -> Answer:
    body = request.body
    if not body.transactional_id:
        return _response(ErrorCode.INVALID_REQUEST)
    groups = request.broker.groups
    partition = TopicPartition(OFFSETS_TOPIC, groups.partition_of(body.group_id))
    answer = ask_here(
        request.broker,
        body.transactional_id,
        Producer(body.producer_id, body.producer_epoch),
        frozenset({partition}),
        version=TransactionVersion.TV_0,
    )
    knows_fenced = request.version >= FIRST_WITH_FENCED
    return gathered(
        [answer],
        lambda errors: _response(
            known_to_producers(errors[0][partition], knows_fenced=knows_fenced)
        ),
    )


def error_answer(
    _request: Request[AddOffsetsToTxnRequest], error: KafkaError
) -> AddOffsetsToTxnResponse:
    return _response(error.code)


def _response(code: ErrorCode) -> AddOffsetsToTxnResponse:
    return make(AddOffsetsToTxnResponse, error_code=code)

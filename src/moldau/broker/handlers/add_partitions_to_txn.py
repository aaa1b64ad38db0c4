"""AddPartitionsToTxn (key 24, versions 0-5): partitions take part in a transaction.

Behaviour: to version 3 producers announce partitions before they write to them; from version 4 on
leaders do it for them, or only ask whether it was done, for several transactions at a time
(KIP-890). If one partition of a transaction does not exist none is added; the others are
OPERATION_NOT_ATTEMPTED.
Known deviations: none.
"""

from __future__ import annotations

from typing import Any

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

from moldau.broker.add_partitions_to_txn import Errors, ask_here
from moldau.broker.broker import Broker
from moldau.broker.old_producers import known_to_producers
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.transactions.metadata import TransactionVersion
from moldau.transactions.rules import Producer
from moldau.wire.make import make

FIRST_OF_BROKERS = 4
FIRST_WITH_FENCED = 2
"""Before it producers do not know PRODUCER_FENCED."""


def handle(request: Request[AddPartitionsToTxnRequest]) -> Answer:
    answers = [
        _add(request.broker, request.version, transaction)
        for transaction in request.body.transactions
    ]
    return gathered(
        answers,
        lambda errors: make(
            AddPartitionsToTxnResponse,
            error_code=ErrorCode.NONE,
            results_by_transaction=tuple(
                _result(transaction, each, request.version)
                for transaction, each in zip(request.body.transactions, errors, strict=True)
            ),
        ),
    )


def error_answer(
    request: Request[AddPartitionsToTxnRequest], error: KafkaError
) -> AddPartitionsToTxnResponse:
    """From version 4 on there is a place for what concerns all."""
    if request.version >= FIRST_OF_BROKERS:
        return make(AddPartitionsToTxnResponse, error_code=error.code, results_by_transaction=())
    return make(
        AddPartitionsToTxnResponse,
        error_code=ErrorCode.NONE,
        results_by_transaction=tuple(
            _result(each, dict.fromkeys(_partitions(each), error.code), request.version)
            for each in request.body.transactions
        ),
    )


def _add(broker: Broker, version: int, transaction: AddPartitionsToTxnTransaction) -> Any:
    partitions = _partitions(transaction)
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    if not all(broker.metadata.has_partition(*each) for each in partitions):
        return {
            each: ErrorCode.OPERATION_NOT_ATTEMPTED
            if broker.metadata.has_partition(*each)
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for each in partitions
        }
    return ask_here(
        broker,
        transaction.transactional_id,
        Producer(transaction.producer_id, transaction.producer_epoch),
        frozenset(partitions),
        verify_only=transaction.verify_only,
        version=TransactionVersion.TV_2 if version >= FIRST_OF_BROKERS else TransactionVersion.TV_0,
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    ]


def _result(
    transaction: AddPartitionsToTxnTransaction, errors: Errors, version: int
) -> AddPartitionsToTxnResult:
    return make(
        AddPartitionsToTxnResult,
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            make(
                AddPartitionsToTxnTopicResult,
                name=topic.name,
                results_by_partition=tuple(
                    make(
                        AddPartitionsToTxnPartitionResult,
                        partition_index=index,
                        partition_error_code=known_to_producers(
                            errors[TopicPartition(topic.name, index)],
                            knows_fenced=version >= FIRST_WITH_FENCED,
                        ),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )

"""DescribeTransactions (key 65, version 0): what transactional ids are doing (KIP-664).

Behaviour: asked of the coordinator of each id.
Known deviations: none.
"""

from __future__ import annotations

from collections import defaultdict

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.transactions.metadata import TransactionMetadata
from moldau.wire.make import make


def handle(request: Request[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
    return make(
        DescribeTransactionsResponse,
        transaction_states=tuple(
            _describe(request.broker, each) for each in request.body.transactional_ids
        ),
    )


def error_answer(
    request: Request[DescribeTransactionsRequest], error: KafkaError
) -> DescribeTransactionsResponse:
    return make(
        DescribeTransactionsResponse,
        transaction_states=tuple(
            _failed(each, error.code) for each in request.body.transactional_ids
        ),
    )


def _describe(broker: Broker, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return _failed(transactional_id, ErrorCode.INVALID_REQUEST)
    host = broker.transactions.host_of(transactional_id)
    refusal = ErrorCode.NOT_COORDINATOR if host is None else host.refusal
    if host is None or refusal:
        return _failed(transactional_id, refusal)
    known = host.shard.get(transactional_id)
    if known is None:
        return _failed(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return _described(known)


def _described(metadata: TransactionMetadata) -> TransactionState:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(metadata.partitions):
        topics[topic].append(partition)
    return make(
        TransactionState,
        error_code=ErrorCode.NONE,
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout=metadata.timeout_ms,
        transaction_start_time=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(
            make(TopicData, topic=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )


def _failed(transactional_id: str, code: ErrorCode) -> TransactionState:
    return make(
        TransactionState,
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=0,
        transaction_start_time=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )

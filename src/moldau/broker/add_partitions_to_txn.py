"""What a leader asks of transaction coordinators: whether a partition takes part in a transaction,
or that it shall (KIP-890).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from moldau.broker.transaction_coordinator import TRANSACTION_TOPIC
from moldau.controller import NO_LEADER
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import pause
from moldau.model import TopicPartition
from moldau.transactions.metadata import TransactionVersion
from moldau.transactions.rules import Producer
from moldau.wire.api import ApiKey
from moldau.wire.make import make

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

Errors: TypeAlias = dict[TopicPartition, ErrorCode]
Answer: TypeAlias = Errors | Awaitable[Errors]


class _Question(NamedTuple):
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    verify_only: bool


def add_partitions_to_txn(
    broker: Broker,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    *,
    verify_only: bool,
) -> Answer:
    """Returns the error of each partition, at once if the coordinator is here and has nothing to
    wait for.

    A transaction that is about to end holds up the next one for a moment: where partitions are to
    be added it is asked again a few times, which is sooner than the producer could.
    """
    question = _Question(transactional_id, producer, partitions, verify_only)
    errors = _ask(broker, question)
    if not isawaitable(errors) and not (_is_concurrent(errors) and not verify_only):
        return errors
    return _ask_again(broker, question, errors)


async def _ask_again(broker: Broker, question: _Question, answer: Answer) -> Errors:
    config, clock = broker.config, broker.clock
    deadline = clock.monotonic() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        errors = await answer if isawaitable(answer) else answer
        if question.verify_only or not _is_concurrent(errors) or clock.monotonic() >= deadline:
            return errors
        await pause(clock, config.add_partitions_to_txn_retry_backoff_ms / 1000)
        answer = _ask(broker, question)


def _is_concurrent(errors: Errors) -> bool:
    return ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()


def _ask(broker: Broker, question: _Question) -> Answer:
    transactional_id, producer, partitions, verify_only = question
    leader = coordinator_of(broker, transactional_id)
    if leader == broker.node_id:
        answer: Answer = ask_here(
            broker, transactional_id, producer, partitions, verify_only=verify_only
        )
        return answer
    if leader == NO_LEADER:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _ask_elsewhere(broker, leader, question)


def coordinator_of(broker: Broker, transactional_id: str) -> int:
    """Returns the broker that coordinates a transactional id, as far as this one knows."""
    state = broker.metadata.partition(
        TRANSACTION_TOPIC, broker.transactions.partition_of(transactional_id)
    )
    return NO_LEADER if state is None else state.leader


def ask_here(
    broker: Broker,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    *,
    verify_only: bool = False,
    version: TransactionVersion = TransactionVersion.TV_2,
) -> Any:
    """The same of the coordinator on this broker, if it is there."""
    if verify_only:
        return broker.transactions.submit(
            transactional_id,
            lambda shard, token, _now_ms: shard.verify_partitions(
                transactional_id, producer, partitions, token
            ),
            lambda error: dict.fromkeys(partitions, error.code),
        )
    return broker.transactions.submit(
        transactional_id,
        lambda shard, token, now_ms: shard.add_partitions(
            transactional_id, producer, partitions, version, token, now_ms
        ),
        lambda error: dict.fromkeys(partitions, error.code),
    )


async def _ask_elsewhere(broker: Broker, leader: int, question: _Question) -> Errors:
    partitions = question.partitions
    registration = broker.metadata.brokers.get(leader)
    if registration is None or broker.peers is None:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        response = await broker.peers.request(
            registration,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _request(question),
            within=broker.config.request_timeout_ms / 1000,
        )
    except KafkaError:
        return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
    errors = dict.fromkeys(partitions, response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for each in topic.results_by_partition:
                key = TopicPartition(topic.name, each.partition_index)
                errors[key] = each.partition_error_code
    return errors


def _request(question: _Question) -> Any:
    from kio.schema.add_partitions_to_txn.v5.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(question.partitions):
        topics[topic].append(partition)
    transaction = make(
        AddPartitionsToTxnTransaction,
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.epoch,
        verify_only=question.verify_only,
        topics=tuple(
            make(AddPartitionsToTxnTopic, name=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ),
    )
    return make(AddPartitionsToTxnRequest, transactions=(transaction,))

"""Looking at transactions: every broker lists those that it coordinates."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Any

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from moldau.client.admin.calls import TRANSACTION, Caller
from moldau.client.admin.types import Outcome, TransactionDescription, TransactionListing
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def list_transactions(
    caller: Caller, states: Collection[str], producer_ids: Collection[int], pattern: str | None
) -> list[TransactionListing]:
    request = make(
        ListTransactionsRequest,
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=-1,
        transactional_id_pattern=pattern,
    )

    async def of_broker(node_id: int) -> list[TransactionListing]:
        answer = await caller.broker(node_id, ApiKey.LIST_TRANSACTIONS, request)
        check(answer.error_code)
        return [
            TransactionListing(t.transactional_id, t.producer_id, t.transaction_state)
            for t in answer.transaction_states
        ]

    await caller.refresh(())
    by_broker = await asyncio.gather(*map(of_broker, caller.cluster.metadata.nodes))
    return sorted(listing for listings in by_broker for listing in listings)


async def describe_transactions(
    caller: Caller, transactional_ids: Collection[str]
) -> list[Outcome[TransactionDescription]]:
    async def ask(node_id: int, wanted: dict[str, None]) -> dict[str, Any]:
        connection = await caller.cluster.connection(node_id)
        answer = await connection.request(
            ApiKey.DESCRIBE_TRANSACTIONS,
            make(DescribeTransactionsRequest, transactional_ids=tuple(wanted)),
        )
        return {
            state.transactional_id: error_of(state.error_code) or _read(node_id, state)
            for state in answer.transaction_states
        }

    answers = await caller.coordinators(dict.fromkeys(transactional_ids), ask, kind=TRANSACTION)
    return [
        Outcome(name, None, answer) if isinstance(answer, KafkaError) else Outcome(name, answer)
        for name, answer in answers.items()
    ]


def _read(node_id: int, state: Any) -> TransactionDescription:
    start: datetime | None = state.transaction_start_time
    return TransactionDescription(
        state.transactional_id,
        node_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        round(state.transaction_timeout.total_seconds() * 1000),
        None if start is None or start.timestamp() < 0 else round(start.timestamp() * 1000),
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in state.topics
            for partition in topic.partitions
        ),
    )

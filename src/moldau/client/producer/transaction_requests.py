"""What a transactional producer asks of the coordinators of its transactions and groups.

Each call is repeated while its error is retriable, at whichever broker coordinates by then.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Protocol

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster
from moldau.client.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE, Coordinator
from moldau.client.producer.identity import ProducerIdentity
from moldau.errors import ErrorCode
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import check
from moldau.wire.api import ApiKey
from moldau.wire.make import make

logger: Final = logging.getLogger("moldau.client.producer")

_TRANSACTION_FEATURE: Final = "transaction.version"
_NO_LIMIT: Final = 2**31 - 1

# The last versions of before transaction version 2.
PRODUCE_BEFORE_2: Final = 11
_END_TXN_BEFORE_2: Final = 4
_TXN_OFFSET_COMMIT_BEFORE_2: Final = 4
_ADD_PARTITIONS_OF_CLIENTS: Final = 3
"""Later versions are for brokers."""


class GroupMetadata(Protocol):
    """The member that read what a transaction has processed: ``Consumer.group_metadata()``."""

    @property
    def group_id(self) -> str: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...


async def new_producer_id(cluster: Cluster, within: float) -> tuple[int, int]:
    """An id and epoch for an idempotent producer; any broker gives them."""
    request = make(
        InitProducerIdRequest,
        transactional_id=None,
        transaction_timeout=_NO_LIMIT,
        producer_id=-1,
        producer_epoch=-1,
    )

    async def attempt() -> tuple[int, int]:
        connection = await cluster.any_connection()
        answer = await connection.request(ApiKey.INIT_PRODUCER_ID, request)
        check(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    return await retrying(attempt, cluster.backoff(within))


class TransactionRequests:
    """The requests of one transactional producer."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        identity: ProducerIdentity,
        timeout_ms: int,
        within: float,
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._identity = identity
        self._timeout_ms = timeout_ms
        self._within = within
        self._coordinators: dict[tuple[int, str], Coordinator] = {}

    async def init_producer_id(self, *, bump: bool = False) -> bool:
        """Get an id, or with ``bump`` the next epoch; whether transaction version 2 is in force.

        What an older producer with the same transactional id left open is aborted by this.
        """
        request = make(
            InitProducerIdRequest,
            transactional_id=self._id,
            transaction_timeout=self._timeout_ms,
            producer_id=self._identity.producer_id if bump else -1,
            producer_epoch=self._identity.epoch if bump else -1,
        )

        async def ask(connection: BrokerConnection) -> bool:
            answer = await connection.request(ApiKey.INIT_PRODUCER_ID, request)
            check(answer.error_code)
            self._identity.adopt(answer.producer_id, answer.producer_epoch)
            return connection.features.get(_TRANSACTION_FEATURE, 0) >= 2

        implicit: bool = await self._at_transaction_coordinator(ask)
        return implicit

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for partition in partitions:
            topics[partition.topic].append(partition.partition)
        request = make(
            AddPartitionsToTxnRequest,
            transactions=(
                make(
                    AddPartitionsToTxnTransaction,
                    transactional_id=self._id,
                    producer_id=self._identity.producer_id,
                    producer_epoch=self._identity.epoch,
                    verify_only=False,
                    topics=tuple(
                        make(AddPartitionsToTxnTopic, name=name, partitions=tuple(numbers))
                        for name, numbers in topics.items()
                    ),
                ),
            ),
        )

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(
                ApiKey.ADD_PARTITIONS_TO_TXN, request, at_most=_ADD_PARTITIONS_OF_CLIENTS
            )
            check(answer.error_code)
            codes = [
                result.partition_error_code
                for transaction in answer.results_by_transaction
                for topic in transaction.topic_results
                for result in topic.results_by_partition
            ]
            # One that says why the others were not tried, if there is one.
            codes.sort(key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED)
            for code in codes:
                check(code)

        await self._at_transaction_coordinator(ask)

    async def end(self, *, commit: bool, implicit: bool) -> None:
        """Commit or abort; with transaction version 2 the producer gets its next epoch."""

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(
                ApiKey.END_TXN,
                make(
                    EndTxnRequest,
                    transactional_id=self._id,
                    producer_id=self._identity.producer_id,
                    producer_epoch=self._identity.epoch,
                    committed=commit,
                ),
                at_most=None if implicit else _END_TXN_BEFORE_2,
            )
            check(answer.error_code)
            if implicit and answer.producer_id >= 0:
                self._identity.adopt(answer.producer_id, answer.producer_epoch)

        await self._at_transaction_coordinator(ask)

    async def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        *,
        implicit: bool,
    ) -> None:
        """Offsets of a group that are committed with the transaction."""
        if not implicit:
            await self._add_offsets(group.group_id)
        topics: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in offsets.items():
            topics[topic].append(
                make(
                    TxnOffsetCommitRequestPartition,
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=-1
                    if offset.leader_epoch is None
                    else offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = make(
            TxnOffsetCommitRequest,
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=tuple(
                make(TxnOffsetCommitRequestTopic, name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(
                ApiKey.TXN_OFFSET_COMMIT,
                request,
                at_most=None if implicit else _TXN_OFFSET_COMMIT_BEFORE_2,
            )
            for topic in answer.topics:
                for partition in topic.partitions:
                    check(partition.error_code)

        await self._at(GROUP_KEY_TYPE, group.group_id, ask)

    async def _add_offsets(self, group: str) -> None:
        request = make(
            AddOffsetsToTxnRequest,
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group,
        )

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(ApiKey.ADD_OFFSETS_TO_TXN, request)
            check(answer.error_code)

        await self._at_transaction_coordinator(ask)

    async def _at_transaction_coordinator(
        self, ask: Callable[[BrokerConnection], Awaitable[Any]]
    ) -> Any:
        return await self._at(TRANSACTION_KEY_TYPE, self._id, ask)

    async def _at(
        self, kind: int, key: str, ask: Callable[[BrokerConnection], Awaitable[Any]]
    ) -> Any:
        coordinator = self._coordinators.get((kind, key))
        if coordinator is None:
            coordinator = Coordinator(self._cluster, key, kind, within=self._within)
            self._coordinators[kind, key] = coordinator
        backoff = self._cluster.backoff(self._within)
        return await retrying(partial(coordinator.run, ask), backoff)

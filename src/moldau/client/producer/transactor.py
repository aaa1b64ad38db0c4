"""Transactions of a producer: the state machine, the requests, and the sender, brought together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.client.errors import TransactionAbortableError
from moldau.client.producer.batch import ProducerBatch
from moldau.client.producer.core import ProducerCore
from moldau.client.producer.prepared_transaction import PreparedTransaction
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.transaction_requests import (
    PRODUCE_BEFORE_2,
    GroupMetadata,
    TransactionRequests,
)
from moldau.client.producer.transactions import Transactions, TransactionState
from moldau.errors import KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition

logger: Final = logging.getLogger("moldau.client.producer")


class GroupName(NamedTuple):
    """A group by its name alone: no check that the committing member is still part of it."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Transactor:
    """Runs on the producer's event loop."""

    def __init__(self, core: ProducerCore) -> None:
        settings = core.settings
        assert settings.transactional_id is not None
        assert core.identity is not None
        self._core = core
        self._state = Transactions(settings.transactional_id)
        self._requests = TransactionRequests(
            core.cluster,
            settings.transactional_id,
            core.identity,
            settings.transaction_timeout_ms,
            settings.max_block_ms / 1000,
        )
        self._adding: asyncio.Task[None] | None = None
        core.sender.admits = self._admits
        core.outcomes.batch_failed = self._batch_failed
        self._set_refusal()

    @property
    def implicit(self) -> bool:
        """Whether the cluster has transaction version 2."""
        return self._state.implicit

    async def init(self) -> None:
        self._core.start()
        self._core.refuse_if_closed()
        state = self._state
        state.expect(TransactionState.UNINITIALIZED, what="init_transactions()")
        state.move(TransactionState.INITIALIZING)
        try:
            self._negotiated(await self._requests.init_producer_id())
        except KafkaError as error:
            if error.retriable:
                state.state = TransactionState.UNINITIALIZED  # may be called again
            else:
                state.failed(error)
            raise
        except asyncio.CancelledError:
            state.state = TransactionState.UNINITIALIZED
            raise
        state.move(TransactionState.READY)
        self._set_refusal()

    def begin(self) -> None:
        self._core.refuse_if_closed()
        self._state.begin()
        self._set_refusal()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: GroupMetadata | str,
    ) -> None:
        state = self._state
        state.expect(TransactionState.IN_TRANSACTION, what="send_offsets_to_transaction()")
        if not offsets:
            return
        positions = {
            partition: OffsetAndMetadata(at) if isinstance(at, int) else at
            for partition, at in offsets.items()
        }
        state.has_offsets = True
        try:
            await self._requests.commit_offsets(
                positions,
                GroupName(group) if isinstance(group, str) else group,
                implicit=state.implicit,
            )
        except KafkaError as error:
            self._failed(error)
            raise

    async def commit(self) -> None:
        state = self._state
        state.expect(TransactionState.IN_TRANSACTION, what="commit_transaction()")
        state.move(TransactionState.COMMITTING)
        self._set_refusal()
        await self._core.flush()
        state.expect(TransactionState.COMMITTING, what="commit_transaction()")
        try:
            if state.started:
                await self._requests.end(commit=True, implicit=state.implicit)
        except KafkaError as error:
            self._failed(error)
            raise
        state.ended()
        self._set_refusal()

    async def prepare(self) -> PreparedTransaction | None:
        state = self._state
        state.expect(TransactionState.IN_TRANSACTION, what="prepare_transaction()")
        state.move(TransactionState.COMMITTING)
        self._set_refusal()
        await self._core.flush()
        state.expect(TransactionState.COMMITTING, what="prepare_transaction()")
        state.move(TransactionState.PREPARED)
        self._set_refusal()
        if not state.started:
            return None
        identity = self._core.identity
        assert identity is not None
        return PreparedTransaction(
            state.transactional_id, identity.producer_id, identity.epoch, state.implicit
        )

    async def abort(self) -> None:
        state = self._state
        state.expect(
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
            what="abort_transaction()",
        )
        state.move(TransactionState.ABORTING)
        self._set_refusal()
        # What was never sent is dropped; what is under way is waited for, or it could turn up in
        # the next transaction.
        dropped = TransactionAbortableError(message="The transaction was aborted")
        self._core.outcomes.fail_all(dropped, self._core.now(), sent_too=False)
        await self._core.flush()
        try:
            if state.started:
                await self._requests.end(commit=False, implicit=state.implicit)
            if state.bump_needed and not state.implicit:
                state.move(TransactionState.INITIALIZING)
                self._negotiated(await self._requests.init_producer_id(bump=True))
        except KafkaError as error:
            state.error = error
            state.move(TransactionState.FATAL_ERROR)
            self._set_refusal()
            raise
        state.ended()
        self._set_refusal()

    async def abort_after_failure(self) -> None:
        """Abort if that is possible; the reason for it is reported, not what comes of this."""
        if self._state.state not in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
        ):
            return
        try:
            await self.abort()
        except KafkaError as error:
            logger.warning("the transaction could not be aborted: %s", error.message)

    async def close(self, timeout: float | None) -> None:
        """An open transaction is aborted, if there is time: nobody has to wait for its timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self.abort_after_failure()
        except TimeoutError:
            logger.warning("closing with an open transaction; the cluster will abort it")
        if self._adding is not None:
            self._adding.cancel()

    def _negotiated(self, implicit: bool) -> None:
        self._state.implicit = implicit
        self._core.sender.produce_at_most = None if implicit else PRODUCE_BEFORE_2

    def _set_refusal(self) -> None:
        accumulator = self._core.accumulator
        with accumulator.home.lock:
            if not self._core.closed:
                accumulator.refusal = self._state.refusal

    def _admits(self, queue: PartitionQueue) -> bool:
        partition = TopicPartition(queue.topic, queue.partition)
        if self._state.admits(partition):
            return True
        if self._state.pending and (self._adding is None or self._adding.done()):
            self._adding = asyncio.create_task(self._add_partitions(), name="add to transaction")
        return False

    async def _add_partitions(self) -> None:
        state = self._state
        # One turn, so that all partitions that are due now go in one request.
        await asyncio.sleep(0)
        while state.pending:
            adding = list(state.pending)
            try:
                await self._requests.add_partitions(adding)
            except KafkaError as error:
                state.pending.clear()
                self._failed(error)
                self._core.outcomes.fail_all(error, self._core.now(), sent_too=False)
                return
            state.added(adding)
            self._core.sender.schedule()

    def _batch_failed(self, _batch: ProducerBatch, error: KafkaError) -> None:
        if self._state.state is not TransactionState.ABORTING:
            self._failed(error)
        self._state.bump_needed = True

    def _failed(self, error: KafkaError) -> None:
        logger.warning("the transaction has failed: %s", error.message)
        self._state.failed(error)
        self._set_refusal()

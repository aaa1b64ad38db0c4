"""The producer for asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from moldau.client.closing import AsyncClosing
from moldau.client.errors import TransactionStateError
from moldau.client.metadata import PartitionInfo
from moldau.client.producer.arguments import SendHeaders, check_callback, pairs
from moldau.client.producer.batch import Delivery, ManyDelivery, ProducerBatch
from moldau.client.producer.core import ProducerCore, many
from moldau.client.producer.preparation import OnDelivery, PreparedRecord
from moldau.client.producer.prepared_transaction import PreparedTransaction
from moldau.client.producer.transaction_requests import GroupMetadata
from moldau.client.producer.transactor import Transactor
from moldau.client.settings import ProducerSettings
from moldau.machine import Machine
from moldau.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from moldau.client.large import LargeMessageCodec


class AsyncProducer(AsyncClosing):
    """Sends records from an asyncio program; all calls from one event loop.

    ::

        async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
            delivery = await producer.send("greetings", b"hello", key=b"en")
            print((await delivery).offset)

    Leaving the block waits until every record is acknowledged or has failed. ``large_messages``
    lets values be larger than records may be: see ``moldau.client.large``.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        large_messages: LargeMessageCodec | None = None,
        machine: Machine | None = None,
        **settings: object,
    ) -> None:
        self._core = ProducerCore(ProducerSettings(config, **settings), large_messages, machine)
        self._transactor = (
            Transactor(self._core) if self._core.settings.transactional_id is not None else None
        )

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: SendHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Queue a record; await the ``Delivery`` to learn where it is stored.

        Waits only for metadata of a new topic and for room in the buffer, ``max.block.ms`` at most.
        """
        core = self._core
        delivery = core.send(topic, value, key, headers, partition, timestamp, on_delivery)
        if isinstance(delivery, PreparedRecord):
            return await core.send_slowly(delivery)
        if core.accumulator.filled:
            # A batch is full: let the sender have its turn, a busy caller would starve it.
            await asyncio.sleep(0)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        headers: SendHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: Any = None,
    ) -> ManyDelivery:
        """Queue many records of a topic at once, which is several times as fast as one by one.

        ``headers`` and ``timestamp`` are those of each record. If one is refused (it is too large,
        it cannot be serialized), those before it are queued.
        """
        check_callback(on_delivery)
        ranges: list[tuple[ProducerBatch, int, int]] = []
        when = self._core.now_ms() if timestamp is None else timestamp
        rest = (topic, values, keys, pairs(headers), partition, when)
        await self._core.send_many_slowly(*rest, 0, ranges)
        return many(ranges, when, on_delivery)

    async def flush(self, timeout: float | None = None) -> None:
        """Send all that is queued and wait until each record is acknowledged or has failed."""
        await self._core.flush(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush for at most ``timeout`` seconds; what is not acknowledged by then fails."""
        if self._transactor is not None:
            await self._transactor.close(timeout)
        await self._core.close(timeout)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas."""
        return await self._core.partitions_for(topic)

    def metrics(self) -> dict[str, float]:
        """Figures by Kafka's names: rates per second, totals, averages, times in milliseconds."""
        return dict(self._core.read_metrics())

    # Transactions

    async def init_transactions(self) -> None:
        """Get ready for transactions; fences older producers with this transactional.id off."""
        await self._transactions.init()

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on is visible together, or not at all."""
        self._transactions.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata | str,
    ) -> None:
        """Commit these positions of a consumer group with the transaction.

        ``group_metadata`` is the consumer's ``group_metadata()``; it lets the cluster refuse a
        member that has been replaced.
        """
        await self._transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Wait for all that was sent, then make it visible; raises if anything failed."""
        await self._transactions.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for all that was sent and leave the transaction open, for another process to end.

        None if nothing was sent: there is no transaction then. The producer can only be closed.
        """
        return await self._transactions.prepare()

    async def abort_transaction(self) -> None:
        """Drop what was sent; the next transaction can begin."""
        await self._transactions.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with producer.transaction():`` commits at the end, aborts on an exception."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._transactions.abort_after_failure()
            raise
        try:
            await self.commit_transaction()
        except BaseException:
            await self._transactions.abort_after_failure()
            raise

    @property
    def _transactions(self) -> Transactor:
        if self._transactor is None:
            raise TransactionStateError("Transactions need a transactional.id")
        return self._transactor

    def __repr__(self) -> str:
        settings = self._core.settings
        name = settings.transactional_id
        return f"<{type(self).__name__} {f'{name!r} ' if name else ''}to {settings.servers}>"

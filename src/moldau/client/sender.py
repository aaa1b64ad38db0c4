"""Sends the batches of one partition, one after the other, until each is stored or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from moldau.client.backoff import Backoff, retrying
from moldau.client.batches import Batch, Delivery, PartitionQueue, Placed
from moldau.client.cluster import Cluster
from moldau.client.connection import Parts
from moldau.client.errors import ClientError, check
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.compression import Compression
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.produce import decode_produce_response, encode_produce_request

_SEQUENCES = 2**31
"""Sequence numbers wrap around to 0 after this many."""


class ProducerIdentity(NamedTuple):
    """What a broker recognises a repeated batch by."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SenderSettings:
    acks: int
    compression: Compression
    compression_level: int | None
    linger: float
    delivery_timeout: float
    idempotent: bool


async def new_identity(cluster: Cluster) -> ProducerIdentity:
    """Ask the cluster for a producer id of our own."""
    request = make(
        InitProducerIdRequest,
        transactional_id=None,
        transaction_timeout=2**31 - 1,
        producer_id=-1,
        producer_epoch=-1,
    )

    async def attempt() -> ProducerIdentity:
        connection = await cluster.any_connection()
        answer = await connection.request(ApiKey.INIT_PRODUCER_ID, request)
        check(answer.error_code)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return await retrying(attempt, within=cluster.request_timeout)


class PartitionSender:
    """Owns the queue of one partition and the task that empties it."""

    def __init__(
        self,
        cluster: Cluster,
        queue: PartitionQueue,
        partition: TopicPartition,
        settings: SenderSettings,
        batch_done: Callable[[Batch], None],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._partition = partition
        self._settings = settings
        self._batch_done = batch_done
        self._identity: ProducerIdentity | None = None
        self._sequence = 0
        self._records = asyncio.Event()
        self._full = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._flushing = False
        self._task = asyncio.create_task(self._run(), name=f"sender of {partition}")

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
    ) -> Delivery:
        delivery, closed = self._queue.append(timestamp, key, value, headers)
        delivery.batch.buffered += size
        self._idle.clear()
        self._records.set()
        if closed:
            self._full.set()
        return delivery

    async def flush(self) -> None:
        """Do not wait for more records; return when all is answered."""
        self._flushing = True
        self._full.set()
        try:
            await self._idle.wait()
        finally:
            self._flushing = False

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._queue.fail_all(ClientError(ErrorCode.INVALID_REQUEST, "The producer was closed"))
        self._idle.set()

    async def _run(self) -> None:
        while True:
            if self._queue.is_empty:
                self._idle.set()
                self._records.clear()
                await self._records.wait()
            await self._linger()
            if not self._queue.has_ready:
                self._queue.close_open()
            batch = self._queue.next_ready()
            if batch is not None:
                await self._finish(batch)

    async def _linger(self) -> None:
        """Give the open batch a moment to fill, unless one is full already."""
        if self._queue.has_ready or self._flushing:
            return
        self._full.clear()
        try:
            async with asyncio.timeout(self._settings.linger):
                await self._full.wait()
        except TimeoutError:
            pass

    async def _finish(self, batch: Batch) -> None:
        """Deliver, and leave the batch resolved whatever happens."""
        try:
            await self._deliver(batch)
        except Exception as error:
            batch.done.set_exception(error)
            # It may have been stored all the same. Under a new id, what follows is no gap.
            self._identity = None
        except asyncio.CancelledError:
            batch.done.set_exception(
                ClientError(ErrorCode.REQUEST_TIMED_OUT, "The producer was closed before an answer")
            )
            raise
        finally:
            self._batch_done(batch)

    async def _deliver(self, batch: Batch) -> None:
        await self._encode(batch)
        backoff = Backoff(self._settings.delivery_timeout)
        while True:
            try:
                batch.done.set_result(await self._produce(batch))
                return
            except KafkaError as error:
                if error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    batch.done.set_result(Placed(-1, -1))
                    return
                if error.code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
                    await self._deliver_halves(batch)
                    return
                if not error.retriable:
                    raise
                self._cluster.forget(self._partition.topic)
                await backoff.pause(error)

    async def _deliver_halves(self, batch: Batch) -> None:
        split = batch.halves(self._settings.compression, self._settings.compression_level)
        self._sequence = batch.sequence if batch.sequence >= 0 else self._sequence
        batch.done.set_result(split)
        for half in split:
            await self._finish(half)

    async def _encode(self, batch: Batch) -> None:
        if not self._settings.idempotent:
            batch.data = batch.builder.build()
            return
        if self._identity is None:
            self._identity = await new_identity(self._cluster)
            self._sequence = 0
        batch.sequence = self._sequence
        self._sequence = (self._sequence + batch.count) % _SEQUENCES
        batch.data = batch.builder.build(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=batch.sequence,
        )

    async def _produce(self, batch: Batch) -> Placed:
        """One attempt."""
        leader, _ = await self._cluster.leader(self._partition)
        topic = await self._cluster.topic(self._partition.topic)
        connection = await self._cluster.connection(leader)
        timeout = self._cluster.request_timeout

        def encode(version: int, correlation_id: int, client_id: str) -> Parts:
            return encode_produce_request(
                version,
                correlation_id,
                client_id,
                None,
                self._settings.acks,
                round(timeout * 1000),
                [(topic.name, topic.topic_id, [(self._partition.partition, batch.data)])],
            )

        if self._settings.acks == 0:
            await connection.send_oneway(ApiKey.PRODUCE, encode)
            return Placed(-1, -1)
        version, frame = await connection.exchange(ApiKey.PRODUCE, encode, within=timeout + 1)
        _, answer = decode_produce_response(version, frame)
        result = answer.topics[0][2][0]
        message = result.error_message
        if result.record_errors:
            message = "; ".join(filter(None, [message, result.record_errors[0][1]]))
        check(result.error_code, message)
        return Placed(result.base_offset, result.log_append_time_ms)

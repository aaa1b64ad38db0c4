"""A producer: records in, batches out, one sender task per partition.

Each partition has at most one request under way, so order holds over retries without further care.
While it is under way the next batch fills: a slow broker makes larger batches, not more requests.
With idempotence (the default with acks=all) a retried batch is stored once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from moldau.client.batches import Batch, Delivery, PartitionQueue
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, UnknownTopicError
from moldau.client.partitioner import StickyPartitioner
from moldau.client.sender import PartitionSender, SenderSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.builder import record_size_bound
from moldau.records.compression import Compression

ALL_REPLICAS: Final = -1
Header = tuple[str, bytes | None]


class Producer:
    """``async with Producer(cluster) as producer: await (await producer.send("t", b"v"))``."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ALL_REPLICAS,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        batch_size: int = 16 * 1024,
        linger: float = 0.005,
        max_record_size: int = 1024 * 1024,
        buffer_memory: int = 32 * 1024 * 1024,
        delivery_timeout: float = 120.0,
        idempotent: bool | None = None,
        allow_auto_creation: bool = False,
        partitioner: StickyPartitioner | None = None,
    ) -> None:
        if acks not in (ALL_REPLICAS, 0, 1):
            raise ValueError(f"acks is {acks}, but must be 0, 1 or -1 (all)")
        if idempotent and acks != ALL_REPLICAS:
            raise ValueError("an idempotent producer needs acks=-1 (all)")
        self._cluster = cluster
        self._queue_options = (batch_size, compression, compression_level)
        self._settings = SenderSettings(
            acks=acks,
            compression=compression,
            compression_level=compression_level,
            linger=linger,
            delivery_timeout=delivery_timeout,
            idempotent=acks == ALL_REPLICAS if idempotent is None else idempotent,
        )
        self._max_record_size = max_record_size
        self._buffer_memory = buffer_memory
        self._allow_auto_creation = allow_auto_creation
        self._partitioner = partitioner or StickyPartitioner()
        self._senders: dict[TopicPartition, PartitionSender] = {}
        self._buffered = 0
        self._room = asyncio.Event()
        self._room.set()
        self._failure: BaseException | None = None
        self._closed = False

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record; waits only for metadata and when the buffer is full."""
        if self._closed:
            raise ClientError(ErrorCode.INVALID_REQUEST, "The producer is closed")
        size = record_size_bound(key, value, headers)
        if size > self._max_record_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A record of {size} bytes is larger than the limit of {self._max_record_size}",
            )
        sender = await self._sender_for(topic, key, partition)
        while self._buffered >= self._buffer_memory:
            self._room.clear()
            await self._room.wait()
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        self._buffered += size
        return sender.append(now, key, value, headers, size)

    async def flush(self) -> None:
        """Send all that is queued, wait for the answers, raise the first failure if any."""
        await asyncio.gather(*(sender.flush() for sender in self._senders.values()))
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Stop. What is still queued fails; flush first."""
        self._closed = True
        await asyncio.gather(*(sender.stop() for sender in self._senders.values()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    async def _sender_for(
        self, topic: str, key: bytes | None, partition: int | None
    ) -> PartitionSender:
        info = self._cluster.metadata.topics.get(topic) or await self._cluster.topic(
            topic, allow_auto_creation=self._allow_auto_creation
        )
        if partition is None:
            available = info.with_leader if key is None else ()
            partition = self._partitioner.partition(topic, key, len(info.partitions), available)
        elif partition not in info.partitions:
            raise UnknownTopicError(topic, partition)
        target = TopicPartition(topic, partition)
        sender = self._senders.get(target)
        if sender is None:
            batch_size, compression, level = self._queue_options
            queue = PartitionQueue(
                target,
                batch_size=batch_size,
                compression=compression,
                level=level,
                on_close=self._partitioner.batch_closed,
            )
            sender = PartitionSender(self._cluster, queue, target, self._settings, self._batch_done)
            self._senders[target] = sender
        return sender

    def _batch_done(self, batch: Batch) -> None:
        """A sender is done with a batch, one way or the other."""
        self._buffered -= batch.buffered
        if self._buffered < self._buffer_memory:
            self._room.set()
        error = batch.done.exception()
        if error is not None and self._failure is None:
            self._failure = error

"""A producer's parts, put together: what both the async and the blocking producer are made of.

``send`` is the hot path and runs in the caller's thread, whatever thread that is. Everything
that may have to wait is a coroutine on the producer's event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.client.cluster import Cluster
from moldau.client.errors import (
    BufferExhaustedError,
    ClosedError,
    ConfigError,
    KafkaError,
    SerializationError,
    TimedOutError,
)
from moldau.client.metadata import PartitionInfo, TopicInfo
from moldau.client.producer.accumulator import Accumulator, Headers
from moldau.client.producer.arguments import check_bytes, check_callback, check_place, checked
from moldau.client.producer.batch import Delivery, LargeDelivery, ManyDelivery, ProducerBatch
from moldau.client.producer.identity import ProducerIdentity
from moldau.client.producer.metrics import ProducerMetrics
from moldau.client.producer.outcomes import Outcomes
from moldau.client.producer.preparation import OnDelivery, Preparation, PreparedRecord
from moldau.client.producer.record import EncodedRecords, ProducerRecord
from moldau.client.producer.sender import Sender
from moldau.client.producer.transaction_requests import new_producer_id
from moldau.client.settings import ProducerSettings
from moldau.client.user_threads import new_lock, this_thread
from moldau.machine import Machine
from moldau.records.compression import Compression
from moldau.records.native import is_compiled

if TYPE_CHECKING:
    from moldau.client.large import LargeMessageCodec

logger: Final = logging.getLogger("moldau.client.producer")


class ProducerCore:
    """One producer. Made anywhere; ``start`` binds it to the running event loop."""

    def __init__(
        self,
        settings: ProducerSettings,
        large_messages: LargeMessageCodec | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, machine)
        self.machine = self.cluster.machine
        self.now = self.machine.clock.monotonic
        self.now_ms = self.machine.clock.now_ms
        if large_messages is not None and not hasattr(large_messages, "encode"):
            raise ConfigError(
                f"large_messages is Chunking() or ClaimCheck(...), not {large_messages!r}"
            )
        self._large = large_messages
        self._preparation = Preparation(settings)
        self._plain = self._preparation.is_nothing and large_messages is None
        # Compiled code checks the types of its arguments by itself.
        self._must_check = not is_compiled()
        self._max_block = settings.max_block_ms / 1000
        self.cluster.allow_auto_creation = True
        self.identity = ProducerIdentity() if settings.enable_idempotence else None
        self.metrics = ProducerMetrics(
            settings.metrics_sample_window_ms / 1000, settings.metrics_num_samples, self.now()
        )
        self.accumulator = Accumulator(
            now=self.now,
            now_ms=self.now_ms,
            wake=self._wake,
            batch_size=settings.batch_size,
            linger=settings.linger_ms / 1000,
            memory=settings.buffer_memory,
            largest_record=min(settings.max_request_size, settings.buffer_memory),
            compression=int(Compression.from_label(settings.compression_type)),
            level=settings.compression_level,
            ignore_keys=settings.partitioner_ignore_keys,
        )
        self.outcomes = Outcomes(
            self.accumulator, self.identity, settings, self.metrics, self.machine.random
        )
        self.outcomes.room_freed = self._room_freed
        self.sender = Sender(
            self.cluster,
            self.accumulator,
            self.outcomes,
            self.identity,
            settings,
            self.metrics,
        )
        self.sender.need_identity = self._need_identity
        self._identifying: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._closed = False
        self.cluster.topics_of_interest = self._topics_of_interest

    def start(self) -> None:
        """Run on this event loop from now on."""
        if self._room is None:
            self._room = asyncio.Event()
            self.accumulator.home.loop_thread = this_thread()
            self.sender.start(asyncio.get_running_loop())

    # Sending

    def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery | PreparedRecord:
        """Add a record; what comes back if that has to wait is for ``send_slowly``."""
        if on_delivery is not None:
            check_callback(on_delivery)
        if self._plain:
            if self._must_check:
                headers = checked(topic, value, key, headers, partition, timestamp)
            try:
                delivery = self.accumulator.send(topic, value, key, headers, partition, timestamp)
            except TypeError:
                headers = checked(topic, value, key, headers, partition, timestamp)
                delivery = self.accumulator.send(topic, value, key, headers, partition, timestamp)
            if delivery is None:
                record = ProducerRecord(topic, value, key, headers, partition, timestamp)
                return PreparedRecord(record, key, value, on_delivery)
            if on_delivery is not None:
                delivery.add_done_callback(on_delivery)
            return delivery
        prepared = self._preparation.prepare(
            ProducerRecord(topic, value, key, headers, partition, timestamp), on_delivery
        )
        if self._is_large(prepared):
            return prepared
        try:
            return self._try_add(prepared) or prepared
        except KafkaError as error:
            self._preparation.refused(error)
            raise

    async def send_slowly(self, prepared: PreparedRecord) -> Delivery:
        """Add a record, waiting up to ``max.block.ms`` for metadata and room."""
        deadline = self.now() + self._max_block
        try:
            if self._is_large(prepared):
                return await self._send_large(prepared, deadline)
            return await self._add(prepared, deadline)
        except KafkaError as error:
            self._preparation.refused(error)
            raise

    async def _add(self, prepared: PreparedRecord, deadline: float) -> Delivery:
        while True:
            await self.learn_topic(prepared.record.topic, deadline)
            delivery = self._try_add(prepared)
            if delivery is not None:
                return delivery
            await self._wait_for_room(deadline)

    async def _send_large(self, prepared: PreparedRecord, deadline: float) -> Delivery:
        """Add the records that stand for one with a large value."""
        assert self._large is not None
        record, value = prepared.record, prepared.value
        args = (record.topic, value, record.headers, self.machine)
        if self._large.blocking:
            parts = await self.machine.threads.run(self._large.encode, *args)
        else:
            parts = self._large.encode(*args)
        if not parts:
            return await self._add(prepared, deadline)
        await self.learn_topic(record.topic, deadline)
        partition = self._preparation.partition_of(prepared, self.cluster.metadata)
        if partition is None:
            with self.accumulator.home.lock:
                state = self.accumulator.topics[record.topic]
                key = prepared.key
                queue = state.sticky() if key is None else state.by_key(key)
                partition = queue.partition
        deliveries = []
        for part, headers in parts:
            chunk = record._replace(
                headers=headers, partition=partition, timestamp=record.timestamp or self.now_ms()
            )
            ready = PreparedRecord(chunk, prepared.key, part, None)
            deliveries.append(await self._add(ready, deadline))
            deadline = self.now() + self._max_block
        whole = LargeDelivery(deliveries)
        self._preparation.watch(whole, prepared.on_delivery)
        return whole

    def _is_large(self, prepared: PreparedRecord) -> bool:
        value = prepared.value
        return self._large is not None and value is not None and len(value) > self._large.threshold

    def try_send_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        headers: Headers,
        partition: int | None,
        timestamp: int,
        start: int,
        ranges: list[tuple[ProducerBatch, int, int]],
    ) -> int:
        """Add records from ``start`` on while that needs no waiting; returns the next index."""
        if not hasattr(values, "__len__"):
            raise TypeError("send_many() takes a list of values; this has no length")
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"there are {len(values)} values and {len(keys)} keys")
        if not self._plain:
            return start
        if self._must_check:
            check_place(topic, partition, timestamp)
            for position in range(start, len(values)):
                check_bytes(None if keys is None else keys[position], values[position])
        try:
            return self.accumulator.send_many(
                topic, values, keys, headers, partition, timestamp, start, ranges
            )
        except TypeError:
            check_place(topic, partition, timestamp)
            raise SerializationError("values and keys must be bytes or None") from None

    async def send_many_slowly(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        headers: Headers,
        partition: int | None,
        timestamp: int,
        start: int,
        ranges: list[tuple[ProducerBatch, int, int]],
    ) -> None:
        """Add the rest, waiting up to ``max.block.ms`` for metadata and each time for room."""
        while self._plain and start < len(values):
            deadline = self.now() + self._max_block
            await self.learn_topic(topic, deadline)
            start = self.try_send_many(
                topic, values, keys, headers, partition, timestamp, start, ranges
            )
            if start < len(values):
                await self._wait_for_room(deadline)
        for position in range(start, len(values)):
            key = None if keys is None else keys[position]
            sent = self.send(topic, values[position], key, headers, partition, timestamp, None)
            delivery = await self.send_slowly(sent) if isinstance(sent, PreparedRecord) else sent
            ranges += delivery.ranges()

    @property
    def takes_encoded(self) -> bool:
        """Whether nothing looks at single records before they are queued."""
        return self._plain

    async def send_encoded(
        self, topic: str, partition: int, records: EncodedRecords
    ) -> ProducerBatch:
        """Add a whole batch, waiting up to ``max.block.ms`` for metadata and room."""
        deadline = self.now() + self._max_block
        await self.learn_topic(topic, deadline)
        while (batch := self.accumulator.send_encoded(topic, partition, records)) is None:
            await self._wait_for_room(deadline)
        return batch

    def _try_add(self, prepared: PreparedRecord) -> Delivery | None:
        record = prepared.record
        if record.topic not in self.accumulator.topics:
            return None
        partition = self._preparation.partition_of(prepared, self.cluster.metadata)
        delivery = self.accumulator.send(
            record.topic, prepared.value, prepared.key, record.headers, partition, record.timestamp
        )
        if delivery is not None:
            self._preparation.watch(delivery, prepared.on_delivery)
        return delivery

    # Waiting

    async def learn_topic(self, topic: str, deadline: float) -> None:
        self.start()
        self.refuse_if_closed()
        if topic in self.accumulator.topics and topic in self.cluster.metadata.topics:
            return
        left = max(deadline - self.now(), 0.0)
        try:
            async with asyncio.timeout(left):
                await self.cluster.topic(topic, allow_auto_creation=True, within=left)
        except TimeoutError:
            raise TimedOutError(
                f"Nothing could be learned about topic {topic!r} within max.block.ms "
                f"({self._max_block:g} s)"
            ) from None
        self.sender.add_topic(topic, self.cluster.metadata)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with leaders and replicas."""
        await self.learn_topic(topic, self.now() + self._max_block)
        info: TopicInfo = self.cluster.metadata.topics[topic]
        return list(info.partitions.values())

    async def flush(self, timeout: float | None = None) -> None:
        """Send all that is queued now and wait until each record is acknowledged or failed."""
        self.start()
        done = asyncio.Event()
        if not self.outcomes.when_flushed(done.set):
            return
        self._hurry(1)
        try:
            async with asyncio.timeout(timeout):
                await done.wait()
        except TimeoutError:
            raise TimedOutError(
                f"{self.unsettled_records} records are not settled after {timeout:g} s"
            ) from None
        finally:
            self._hurry(-1)

    async def close(self, timeout: float | None = None) -> None:
        """Flush for at most ``timeout`` seconds; what is not acknowledged by then fails."""
        if self._closed:
            return
        self._closed = True
        self.accumulator.refuse(ClosedError("The producer is closed"))
        try:
            if self._room is not None and timeout != 0:
                await self.flush(timeout)
        except TimedOutError:
            logger.warning("closing with %d records not settled", self.unsettled_records)
        finally:
            self.outcomes.fail_all(
                ClosedError("The producer was closed before the record was acknowledged"),
                self.now(),
            )
            self._room_freed()
            self.sender.stop()
            if self._identifying is not None:
                self._identifying.cancel()
            await self.cluster.close()
            self._preparation.close()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def unsettled_records(self) -> int:
        with self.accumulator.home.lock:
            return sum(batch.count for batch in self.accumulator.incomplete)

    def abandon(self) -> None:
        """Nobody will close this producer; called from any thread."""
        gone = ClosedError("The producer is gone without close()")
        self.accumulator.refuse(gone)

        def end() -> None:
            self.outcomes.fail_all(gone, self.now())
            self.sender.stop()
            self.cluster.abandon()

        self.sender.call_from_thread(end)

    def after_fork(self) -> None:
        """In a child process: its copies of records are the parent's to send."""
        self.accumulator.home.lock = new_lock()
        self.accumulator.refuse(
            ClosedError("This producer was made before a fork; make a new one in the child process")
        )

    def refuse_if_closed(self) -> None:
        if self._closed:
            raise ClosedError("The producer is closed")

    def read_metrics(self) -> Mapping[str, float]:
        accumulator = self.accumulator
        return {
            **self.metrics.read(self.now()),
            "buffer-total-bytes": self.settings.buffer_memory,
            "buffer-available-bytes": self.settings.buffer_memory - accumulator.buffered,
            "waiting-threads": accumulator.starving,
        }

    def _hurry(self, change: int) -> None:
        with self.accumulator.home.lock:
            self.accumulator.flushing += change
        self.sender.schedule()

    async def _wait_for_room(self, deadline: float) -> None:
        self.refuse_if_closed()
        assert self._room is not None
        accumulator = self.accumulator
        self._room.clear()
        with accumulator.home.lock:
            accumulator.starving += 1
        self.sender.schedule()
        try:
            async with asyncio.timeout(max(deadline - self.now(), 0.0)):
                await self._room.wait()
        except TimeoutError:
            raise BufferExhaustedError(
                f"No room for a record within max.block.ms ({self._max_block:g} s): "
                f"{accumulator.buffered} of {self.settings.buffer_memory} bytes of buffer.memory "
                "wait to be acknowledged"
            ) from None
        finally:
            with accumulator.home.lock:
                accumulator.starving -= 1

    def _room_freed(self) -> None:
        if self.accumulator.starving and self._room is not None:
            self._room.set()

    def _wake(self) -> None:
        if this_thread() == self.accumulator.home.loop_thread:
            self.sender.schedule()
        else:
            self.sender.call_from_thread(self.sender.schedule)

    def _topics_of_interest(self) -> list[str]:
        """What is kept up to date: not what nothing was sent to for metadata.max.idle.ms."""
        since = self.now() - self.settings.metadata_max_idle_ms / 1000
        return [name for name, state in self.accumulator.topics.items() if state.used_since(since)]

    # Identity

    def _need_identity(self) -> None:
        if self.settings.transactional_id is not None:
            return  # init_transactions() gets it
        if self._identifying is None or self._identifying.done():
            self._identifying = asyncio.create_task(self._identify(), name="producer id")

    async def _identify(self) -> None:
        assert self.identity is not None
        try:
            producer_id, epoch = await new_producer_id(
                self.cluster, self.settings.delivery_timeout_ms / 1000
            )
        except KafkaError as error:
            if not error.retriable:
                logger.error("no producer id, all records fail: %s", error.message)
                self.outcomes.fail_all(error, self.now())
        else:
            logger.debug("producer id %d, epoch %d", producer_id, epoch)
            self.identity.adopt(producer_id, epoch)
        self.sender.schedule()


def many(
    ranges: list[tuple[ProducerBatch, int, int]], timestamp: int, on_delivery: Any
) -> ManyDelivery:
    """The one delivery of records sent together."""
    delivery = ManyDelivery(ranges, timestamp)
    if on_delivery is not None:
        delivery.add_done_callback(on_delivery)
    return delivery

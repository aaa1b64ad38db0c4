"""Records waiting to be sent, batch by batch, partition by partition. No IO and no clock.

``send`` is called for every record, from any thread, and costs little more than writing the record
into its batch; the sender takes batches out. One lock guards it all.

A batch is closed at ``batch.size``. While closed batches of its partition wait for the sender, the
last one may grow on, to sixteen times that: a slow broker, or a program that leaves the sender's
thread little time, makes larger batches and not more requests. Compiled by mypyc where a compiler
was at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from moldau.client.errors import RecordTooLargeError
from moldau.client.producer.batch import Delivery, Home, ProducerBatch
from moldau.client.producer.queue import PartitionQueue, TopicState
from moldau.client.producer.record import EncodedRecords
from moldau.errors import ErrorCode
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.records.native import i64

Headers = Sequence[tuple[str, bytes | None]]

NEVER: Final = float("inf")
MAX_TIMESTAMP: Final = 2**63 - 1
"""What a record can hold."""


class Accumulator:
    """All that waits in one producer."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        now_ms: Callable[[], int],
        wake: Callable[[], object],
        batch_size: int,
        linger: float,
        memory: int,
        largest_record: int,
        compression: int,
        level: int | None,
        ignore_keys: bool,
    ) -> None:
        self.home = Home()
        self._now = now
        self._now_ms = now_ms
        self._stamp: int = 0
        self._stamp_until: float = 0.0
        self._wake = wake
        self._batch_size = batch_size
        self.linger = linger
        self._memory: i64 = memory
        self._largest_record: i64 = largest_record
        self._compression = compression
        self._level = level
        self._ignore_keys = ignore_keys
        self.topics: dict[str, TopicState] = {}
        self.active: dict[PartitionQueue, None] = {}
        """The queues with batches that wait or are under way."""
        self._used: i64 = 0
        self.next_serial: int = 0
        self.incomplete: dict[ProducerBatch, int] = {}
        """Every batch that is not settled, with its serial number."""
        self.flushing: int = 0
        """How many callers want everything sent now."""
        self.starving: int = 0
        """How many callers wait for room: batches go out as they are."""
        self.wake_at: float = NEVER
        """When the sender looks here next by itself."""
        self.wake_pending: bool = False
        self._must_wake: bool = False
        self.filled: bool = False
        """Set when a batch was filled; an async caller takes it as a hint to let the sender run."""
        self.refusal: Exception | None = None
        """Why nothing is accepted any more."""

    @property
    def buffered(self) -> int:
        """Bytes of records that wait or are under way."""
        return self._used

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery | None:
        """Add a record. None when the topic is not known yet or there is no room now."""
        if timestamp is None:
            timestamp = self._timestamp()
        else:
            _check_timestamp(timestamp)
        size: i64 = record_size_bound(key, value, headers)
        if size > self._largest_record:
            raise self._too_large(size)
        state = self.topics.get(topic)
        if state is None:
            return None
        with self.home.lock:
            if self.refusal is not None:
                raise self.refusal
            if self._used + size > self._memory and self._used > 0:
                return None
            batch, index = self._add(state, value, key, headers, partition, timestamp, size)
            wake = self._must_wake
            self._must_wake = False
        if wake:
            self._wake()
        return Delivery(batch, index, timestamp)

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        headers: Headers,
        partition: int | None,
        timestamp: int,
        start: int,
        ranges: list[tuple[ProducerBatch, int, int]],
    ) -> int:
        """Add records from ``start`` on, as many as there is room for; returns the next index.

        The places go to ``ranges``: batch, index of the first record there, number of records.
        """
        _check_timestamp(timestamp)
        state = self.topics.get(topic)
        position = start
        count = len(values)
        while state is not None and position < count:
            with self.home.lock:
                if self.refusal is not None:
                    raise self.refusal
                before = position
                while position < count and not self._must_wake:
                    value = values[position]
                    key = None if keys is None else keys[position]
                    size: i64 = record_size_bound(key, value, headers)
                    if size > self._largest_record:
                        raise self._too_large(size)
                    if self._used + size > self._memory and self._used > 0:
                        break
                    batch, index = self._add(state, value, key, headers, partition, timestamp, size)
                    position += 1
                    _extend(ranges, batch, index)
                wake = self._must_wake
                self._must_wake = False
            if wake:
                self._wake()
            elif position == before:
                break
        return position

    def send_encoded(
        self, topic: str, partition: int, records: EncodedRecords
    ) -> ProducerBatch | None:
        """Add a whole batch. None when the topic is not known yet or there is no room now."""
        if records.largest > self._largest_record:
            raise self._too_large(records.largest)
        state = self.topics.get(topic)
        if state is None:
            return None
        size: i64 = len(records.data)
        with self.home.lock:
            if self.refusal is not None:
                raise self.refusal
            if self._used + size > self._memory and self._used > 0:
                return None
            queue = state.by_number(partition)
            queue.close_open()
            batch = self._new_batch(queue)
            batch.builder.fill(
                records.data, records.count, records.base_timestamp, records.max_timestamp
            )
            batch.buffered = size
            self._used += size
            queue.close_open()
            self._filled()
            wake = self._must_wake
            self._must_wake = False
        if wake:
            self._wake()
        return batch

    def _timestamp(self) -> int:
        """Milliseconds since 1970, asked for once in each: for every record that would be a tenth
        of what sending it costs.
        """
        now = self._now()
        if now >= self._stamp_until:
            self._stamp = self._now_ms()
            self._stamp_until = now + 0.001
        return self._stamp

    def _add(
        self,
        state: TopicState,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp: int,
        size: i64,
    ) -> tuple[ProducerBatch, i64]:
        """Write a record into the open batch of its partition; the lock is held."""
        sticky = False
        if partition is not None:
            queue = state.by_number(partition)
        elif key is not None and not self._ignore_keys:
            queue = state.by_key(key)
        else:
            queue = state.sticky()
            sticky = True
        batch = queue.open
        if batch is not None and batch.builder.size + size > queue.limit:
            batch = self._close_unless_behind(queue, batch, size)
        if batch is None:
            batch = self._new_batch(queue)
        index: i64 = batch.builder.append(timestamp, key, value, headers)
        batch.buffered += size
        self._used += size
        if batch.builder.size >= queue.limit and not queue.waiting:
            queue.close_open()
            self._filled()
        if sticky:
            state.stuck(queue, size)
        return batch, index

    def _close_unless_behind(
        self, queue: PartitionQueue, batch: ProducerBatch, size: i64
    ) -> ProducerBatch | None:
        """The open batch if it may grow because others wait, else None: it is closed."""
        if queue.waiting and batch.builder.size + size <= queue.grown_limit:
            return batch
        queue.close_open()
        self._filled()
        return None

    def _filled(self) -> None:
        self.filled = True
        self._call_sender()

    def _call_sender(self) -> None:
        """The sender has something to do; it is told once until it looks."""
        if not self.wake_pending:
            self.wake_pending = True
            self._must_wake = True

    def _new_batch(self, queue: PartitionQueue) -> ProducerBatch:
        """An open batch for the queue."""
        now = self._now()
        builder = BatchBuilder(compression=self._compression, level=self._level)
        batch = ProducerBatch(
            self.home, queue.topic, queue.partition, queue.next_number, builder, now
        )
        queue.next_number += 1
        queue.last_used = now
        queue.open = batch
        self.active[queue] = None
        self.track(batch)
        if now + self.linger < self.wake_at:
            self._call_sender()
        return batch

    def track(self, batch: ProducerBatch) -> None:
        """This batch has to be settled."""
        self.incomplete[batch] = self.next_serial
        self.next_serial += 1

    def release(self, batch: ProducerBatch) -> None:
        """A batch is settled: its memory is free."""
        with self.home.lock:
            self._used -= batch.buffered
            self.incomplete.pop(batch, None)

    def _too_large(self, size: i64) -> RecordTooLargeError:
        return RecordTooLargeError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A record of {size} bytes is larger than max.request.size or buffer.memory, "
            f"{self._largest_record} bytes",
        )

    # What the sender asks; it holds the lock

    def due(self, queue: PartitionQueue) -> float:
        """When the queue's next batch may go, by the clock that batches are made by."""
        if queue.waiting:
            return queue.waiting[0].not_before
        batch = queue.open
        if batch is None:
            return NEVER
        if self.flushing or self.starving or batch.builder.size >= queue.limit:
            return 0.0
        return batch.created + self.linger

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Remove the next batch, closing it if it is open."""
        if not queue.waiting:
            queue.close_open()
        return queue.waiting.popleft()

    def retire(self, queue: PartitionQueue) -> None:
        """Forget an empty queue until it gets a record again."""
        if queue.is_empty() and not queue.in_flight and queue.outstanding == 0:
            self.active.pop(queue, None)

    def refuse(self, error: Exception) -> None:
        """Accept nothing from now on."""
        with self.home.lock:
            if self.refusal is None:
                self.refusal = error


def _check_timestamp(timestamp: int) -> None:
    if not 0 <= timestamp <= MAX_TIMESTAMP:
        raise ValueError(f"a timestamp is in milliseconds since 1970, not {timestamp}")


def _extend(ranges: list[tuple[ProducerBatch, int, int]], batch: ProducerBatch, index: int) -> None:
    """Add a record to the last range, or begin one."""
    if ranges:
        last, first, records = ranges[-1]
        if last is batch and first + records == index:
            ranges[-1] = (batch, first, records + 1)
            return
    ranges.append((batch, index, 1))

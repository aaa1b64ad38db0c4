"""A batch on its way to a partition, and what ``send`` returns for each record in it.

A record's place is its batch and its index there, so that one acknowledgement settles all records
of a batch without touching any of them. Compiled by mypyc where a compiler was at hand: there is a
``Delivery`` per record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Any, Final

from moldau.client.errors import TimedOutError
from moldau.client.producer.result import RecordMetadata
from moldau.client.user_threads import block_until, new_lock, this_thread
from moldau.native import mypyc_attr
from moldau.records.builder import BatchBuilder
from moldau.records.native import i64

logger: Final = logging.getLogger("moldau.client.producer")

NO_SEQUENCE: Final = -1


class BatchState(IntEnum):
    """What has become of a batch; it changes once."""

    PENDING = 0
    ACKNOWLEDGED = 1
    FAILED = 2
    SPLIT = 3
    """It was too large for the broker; its records are in two batches now."""


class Home:
    """What the batches of one producer share: its lock, and the thread that settles them."""

    def __init__(self) -> None:
        self.lock: Any = new_lock()
        self.loop_thread: int = 0


class ProducerBatch:
    """Some records of one partition that are sent, acknowledged and refused together."""

    def __init__(
        self,
        home: Home,
        topic: str,
        partition: int,
        number: float,
        builder: BatchBuilder,
        now: float,
    ) -> None:
        self.home = home
        self.topic = topic
        self.partition = partition
        self.number = number
        """The place among the batches of its partition; halves of a batch lie in between."""
        self.width: float = 1.0
        """How far it is to the next place."""
        self.builder = builder
        self.created = now
        self.buffered: int = 0
        """Bytes of the producer's memory that become free with this batch."""
        self.data: bytearray | None = None
        """The encoded batch, once it was sent for the first time: retries send the same bytes."""
        self.sequence: int = NO_SEQUENCE
        self.attempts: int = 0
        self.not_before: float = 0.0
        self.first_error: Exception | None = None
        self.state: int = 0
        self.base_offset: int = -1
        self.append_time: int = -1
        self.error: Exception | None = None
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self.callbacks: list[tuple[Delivery, Callable[[Any], object]]] = []

    @property
    def count(self) -> int:
        return self.builder.count

    def __repr__(self) -> str:
        return (
            f"<batch {self.number:g} of {self.topic}-{self.partition}: {self.count} records, "
            f"{BatchState(self.state).name.lower()}, {self.attempts} attempts>"
        )

    def acknowledge(self, base_offset: int, append_time: int) -> None:
        """Stored: every record has its offset."""
        self.base_offset = base_offset
        self.append_time = append_time
        self._settle(1)

    def fail(self, error: Exception) -> None:
        """Not stored, or nobody knows."""
        self.error = error
        self._settle(2)

    def split(self, first: ProducerBatch, second: ProducerBatch) -> None:
        """The same records go on in two batches, and so does whoever waits for them."""
        with self.home.lock:
            self.state = 3
            self.data = None
            self.halves = (first, second)
            callbacks = self.callbacks
            self.callbacks = []
            for delivery, callback in callbacks:
                delivery._place()[0].callbacks.append((delivery, callback))

    def _settle(self, state: int) -> None:
        with self.home.lock:
            self.state = state
            self.data = None  # whoever keeps a delivery does not keep the bytes
            callbacks = self.callbacks
            self.callbacks = []
        for delivery, callback in callbacks:
            call_back(callback, delivery)


def call_back(callback: Callable[[Any], object], argument: object) -> None:
    """Call what a user gave; its failure is its own."""
    try:
        callback(argument)
    except Exception:
        logger.exception("a delivery callback failed; the record's fate is not changed by that")


@mypyc_attr(acyclic=True)  # what a batch holds of its deliveries it lets go when it is settled
class Delivery:
    """What ``send`` returns: the record's future place, or the reason why it has none.

    Wait with ``result()``, ``await`` it from any event loop, or give ``add_done_callback`` a
    function, which is called from the producer's thread.
    """

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: ProducerBatch, index: i64, timestamp: i64) -> None:
        self.batch: ProducerBatch = batch
        self.index: i64 = index
        self.timestamp: i64 = timestamp

    def ranges(self) -> list[tuple[ProducerBatch, int, int]]:
        """The batches with this record, as ``ManyDelivery`` has them."""
        return [(self.batch, self.index, 1)]

    def done(self) -> bool:
        """Whether the record is acknowledged or failed."""
        batch, _ = self._place()
        return batch.state != 0

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises what it failed with, or TimedOutError after ``timeout``."""
        batch, index = self._wait(timeout)
        if batch.error is not None:
            raise batch.error
        return RecordMetadata(
            batch.topic,
            batch.partition,
            batch.base_offset + index if batch.base_offset >= 0 else -1,
            batch.append_time if batch.append_time >= 0 else self.timestamp,
        )

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What the record failed with, or None; raises TimedOutError after ``timeout``."""
        batch, _ = self._wait(timeout)
        return batch.error

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call with this delivery when it is done, at once if it is already."""
        batch, _ = self._place()
        with batch.home.lock:
            if batch.state == 0:
                batch.callbacks.append((self, callback))
                return
        if batch.state == 3:
            self.add_done_callback(callback)
        else:
            call_back(callback, self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self.add_done_callback(_waker(waiter))
            yield from waiter
        return self.result(0)

    def __repr__(self) -> str:
        batch, _ = self._place()
        where = f"{batch.topic}-{batch.partition}"
        if batch.state == 0:
            return f"<Delivery to {where}: pending>"
        if batch.error is not None:
            return f"<Delivery to {where}: failed, {batch.error}>"
        return f"<Delivery to {where}: at offset {self.result(0).offset}>"

    def _place(self) -> tuple[ProducerBatch, i64]:
        """The batch that the record is in now, and its index there."""
        batch = self.batch
        index = self.index
        while batch.halves is not None:
            first, second = batch.halves
            count: i64 = first.builder.count
            if index < count:
                batch = first
            else:
                batch = second
                index -= count
        return batch, index

    def _wait(self, timeout: float | None) -> tuple[ProducerBatch, i64]:
        batch, index = self._place()
        if batch.state == 0:
            block(self, batch.home, timeout)
            batch, index = self._place()
            if batch.state == 0:
                raise not_acknowledged(batch)
        return batch, index


@mypyc_attr(acyclic=True)
class LargeDelivery(Delivery):
    """The delivery of a value that went as several records: its place is that of the last one."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Delivery]) -> None:
        last = parts[-1]
        super().__init__(last.batch, last.index, last.timestamp)
        self.parts = parts

    def ranges(self) -> list[tuple[ProducerBatch, int, int]]:
        return [(part.batch, part.index, 1) for part in self.parts]

    def done(self) -> bool:
        return self._all().done()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        return self._all().result(timeout)[-1]

    def exception(self, timeout: float | None = None) -> Exception | None:
        return self._all().exception(timeout)

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._all().add_done_callback(lambda _: callback(self))

    def _all(self) -> ManyDelivery:
        return ManyDelivery(self.ranges(), self.timestamp)


@mypyc_attr(acyclic=True)
class ManyDelivery:
    """What ``send_many`` returns: a ``Delivery`` for all of its records together."""

    __slots__ = ("ranges", "timestamp")

    def __init__(self, ranges: list[tuple[ProducerBatch, int, int]], timestamp: i64) -> None:
        self.ranges = ranges
        """(batch, index of the first record there, records)"""
        self.timestamp: i64 = timestamp

    @property
    def count(self) -> int:
        """How many records."""
        total = 0
        for _, _, records in self.ranges:
            total += records
        return total

    def done(self) -> bool:
        """Whether all records are acknowledged or failed."""
        return self._pending() is None

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Where the records are, in their order; raises what the first failed one failed with."""
        self._wait(timeout)
        return [
            Delivery(batch, index, self.timestamp).result(0)
            for batch, first, records in self.ranges
            for index in range(first, first + records)
        ]

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What the first failed record failed with, or None if all are acknowledged."""
        self._wait(timeout)
        for batch in self._batches():
            if batch.error is not None:
                return batch.error
        return None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call with this object when all records are done."""
        pending = self._pending()
        if pending is None:
            call_back(callback, self)
        else:
            # One batch after the other; those that are done by then cost nothing.
            Delivery(pending, 0, 0).add_done_callback(lambda _: self.add_done_callback(callback))

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self.add_done_callback(_waker(waiter))
            yield from waiter
        return self.result(0)

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<ManyDelivery of {self.count} records: {state}>"

    def _batches(self) -> list[ProducerBatch]:
        """The batches that the records are in now."""
        leaves: list[ProducerBatch] = []
        left = [batch for batch, _, _ in reversed(self.ranges)]
        while left:
            batch = left.pop()
            if batch.halves is None:
                leaves.append(batch)
            else:
                left.append(batch.halves[1])
                left.append(batch.halves[0])
        return leaves

    def _pending(self) -> ProducerBatch | None:
        for batch in self._batches():
            if batch.state == 0:
                return batch
        return None

    def _wait(self, timeout: float | None) -> None:
        pending = self._pending()
        if pending is not None:
            block(self, pending.home, timeout)
            pending = self._pending()
            if pending is not None:
                raise not_acknowledged(pending)


def block(delivery: Any, home: Home, timeout: float | None) -> None:
    """Block this thread until a delivery of whatever kind is done, or the time is up."""
    if timeout is not None and timeout <= 0:
        return
    if home.loop_thread == this_thread():
        raise RuntimeError(
            "waiting here would stop the event loop that sends the record: await the delivery"
        )
    block_until(delivery.add_done_callback, timeout)


def not_acknowledged(batch: ProducerBatch) -> TimedOutError:
    return TimedOutError(f"The record for {batch.topic}-{batch.partition} is not acknowledged yet")


def _waker(waiter: asyncio.Future[None]) -> Callable[[object], None]:
    """What ends an ``await`` in its own loop, whichever thread it is called from."""
    loop = waiter.get_loop()
    thread = this_thread()

    def finish() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: object) -> None:
        if this_thread() == thread:
            finish()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(finish)

    return wake

"""What becomes of batches: stored, sent again, split, failed. No IO; time is handed in.

Every batch leaves through here exactly once as acknowledged or failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Final

from moldau.client.backoff import pause_after
from moldau.client.errors import DeliveryTimeoutError
from moldau.client.producer.accumulator import NEVER, Accumulator
from moldau.client.producer.batch import BatchState, ProducerBatch
from moldau.client.producer.identity import ProducerIdentity
from moldau.client.producer.metrics import ProducerMetrics
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.splitting import halves_of
from moldau.client.settings import ProducerSettings
from moldau.errors import ErrorCode, KafkaError

logger: Final = logging.getLogger("moldau.client.producer")

_LOST_PLACE: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""The broker does not know what came before the batch; it did not store it."""


class FlushWaiter:
    """Somebody who waits for all batches up to a serial number to be settled."""

    __slots__ = ("callback", "left", "serial")

    def __init__(self, serial: int, left: int, callback: Callable[[], object]) -> None:
        self.serial = serial
        self.left = left
        self.callback = callback


class Outcomes:
    """Decides over the batches of one producer; runs on the sender's loop."""

    def __init__(
        self,
        accumulator: Accumulator,
        identity: ProducerIdentity | None,
        settings: ProducerSettings,
        metrics: ProducerMetrics,
        random: Random,
    ) -> None:
        self._random = random
        self._accumulator = accumulator
        self._identity = identity
        self._transactional = settings.transactional_id is not None
        self._retries = settings.retries
        self._first_pause = settings.retry_backoff_ms / 1000
        self._longest_pause = settings.retry_backoff_max_ms / 1000
        self._timeout = settings.delivery_timeout_ms / 1000
        self._metrics = metrics
        self._flushes: list[FlushWaiter] = []
        self.room_freed: Callable[[], object] = _nothing
        """Called when memory became free."""
        self.batch_failed: Callable[[ProducerBatch, KafkaError], object] = _nothing
        """Called for every failed batch: a transaction cannot be committed then."""

    # What an answer says

    def stored(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, append_time: int
    ) -> None:
        if batch.state != BatchState.PENDING:
            return  # it took too long and has failed
        if self._identity is not None:
            self._identity.stored(queue)
        self._leave(queue, batch)
        batch.acknowledge(base_offset, append_time)
        self._settled(batch)

    def refused(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float
    ) -> None:
        """A broker answered with an error, or no answer came."""
        if batch.state != BatchState.PENDING:
            return
        if error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.stored(queue, batch, -1, -1)
        elif error.code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(queue, batch)
        elif self._may_go_again(queue, batch, error):
            self._again(queue, batch, error, now)
        else:
            self.failed(queue, batch, error, now)

    def failed(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float
    ) -> None:
        """The end of a batch that is not stored, as far as anybody knows."""
        if batch.state != BatchState.PENDING:
            return
        if isinstance(error, DeliveryTimeoutError):  # it says all of it
            logger.warning("%s", error.message)
        else:
            logger.warning("%s failed%s: %s", _shown(batch), _tried(batch), error.message)
        self._leave(queue, batch)
        self._metrics.failed(batch.count, now)
        self.batch_failed(batch, error)
        batch.fail(error)
        self._settled(batch)

    # What time says

    def expire(self, now: float) -> float:
        """Fail what has not been delivered in time; returns when to look again."""
        oldest = now - self._timeout
        accumulator = self._accumulator
        with accumulator.home.lock:
            late = []
            for batch in accumulator.incomplete:
                # In the order of their making, but for halves of split batches.
                if batch.created > oldest:
                    next_look = batch.created + self._timeout
                    break
                late.append(batch)
            else:
                next_look = NEVER
        for batch in late:
            queue = accumulator.topics[batch.topic].queues[batch.partition]
            with accumulator.home.lock:
                if queue.open is batch:
                    queue.open = None
                elif batch in queue.waiting:
                    queue.waiting.remove(batch)
            self.failed(queue, batch, self._too_late(batch), now)
        return next_look

    def fail_all(self, error: KafkaError, now: float, *, sent_too: bool = True) -> None:
        """Give up everything that waits, and with ``sent_too`` what is under way as well."""
        accumulator = self._accumulator
        with accumulator.home.lock:
            given_up = []
            for queue in list(accumulator.active):
                queue.close_open()
                given_up += [(queue, batch) for batch in queue.waiting]
                queue.waiting.clear()
            if sent_too:
                waiting = {batch for _, batch in given_up}
                given_up += [
                    (accumulator.topics[batch.topic].queues[batch.partition], batch)
                    for batch in accumulator.incomplete
                    if batch not in waiting
                ]
        for queue, batch in given_up:
            self.failed(queue, batch, error, now)

    # Waiting

    def when_flushed(self, callback: Callable[[], object]) -> bool:
        """Call back when all that is there now is settled; False if there is nothing."""
        accumulator = self._accumulator
        with accumulator.home.lock:
            left = len(accumulator.incomplete)
            if left:
                self._flushes.append(FlushWaiter(accumulator.next_serial, left, callback))
        return left > 0

    def _settled(self, batch: ProducerBatch) -> None:
        serial = self._accumulator.incomplete.get(batch, 0)
        self._accumulator.release(batch)
        self.room_freed()
        if self._flushes:
            self._count_flushes(serial, -1)

    def _count_flushes(self, serial: int, change: int) -> None:
        for waiter in self._flushes:
            if serial < waiter.serial:
                waiter.left += change
        done = [waiter for waiter in self._flushes if waiter.left <= 0]
        if done:
            self._flushes = [waiter for waiter in self._flushes if waiter.left > 0]
            for waiter in done:
                waiter.callback()

    # Ways on

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float
    ) -> None:
        if now - batch.created >= self._timeout:
            self.failed(queue, batch, self._too_late(batch, error), now)
            return
        batch.first_error = batch.first_error or error
        batch.not_before = now + pause_after(
            batch.attempts, self._first_pause, self._longest_pause, self._random
        )
        self._metrics.retried(batch.count, now)
        logger.info(
            "%s: sent again in %.2f s (attempt %d): %s",
            _shown(batch),
            batch.not_before - now,
            batch.attempts + 1,
            error.message,
        )
        with self._accumulator.home.lock:
            queue.put_back(batch)

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        accumulator = self._accumulator
        first, second = halves_of(batch)
        logger.info(
            "a batch of %d records for %s-%d is too large for the broker; sent as two",
            batch.count,
            batch.topic,
            batch.partition,
        )
        with accumulator.home.lock:
            serial = accumulator.incomplete.pop(batch)
            accumulator.incomplete[first] = accumulator.incomplete[second] = serial
            queue.too_large()
            if self._identity is not None:
                self._identity.replace(queue, batch, (first, second))
            queue.put_back(second)
            queue.put_back(first)
        batch.split(first, second)
        self._count_flushes(serial, 1)

    def _may_go_again(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> bool:
        if self._identity is not None and error.code in _LOST_PLACE:
            return self._place_can_be_found(self._identity, queue, batch)
        return error.retriable and batch.attempts <= self._retries

    def _place_can_be_found(
        self, identity: ProducerIdentity, queue: PartitionQueue, batch: ProducerBatch
    ) -> bool:
        is_first = bool(queue.in_flight) and queue.in_flight[0] is batch
        if is_first and self._transactional:
            return False  # only aborting the transaction makes up for what is missing
        identity.out_of_order(queue, batch)
        return True

    def _leave(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if self._identity is not None:
            self._identity.settled(queue, batch)
        with self._accumulator.home.lock:
            self._accumulator.retire(queue)

    def _too_late(
        self, batch: ProducerBatch, last: KafkaError | None = None
    ) -> DeliveryTimeoutError:
        reason = last or batch.first_error
        because = f": {reason.message}" if isinstance(reason, KafkaError) else ""
        late = DeliveryTimeoutError(
            f"{_shown(batch)}: not acknowledged within delivery.timeout.ms ({self._timeout:g} s)"
            f"{_tried(batch)}{because}"
        )
        late.__cause__ = reason
        return late


def _shown(batch: ProducerBatch) -> str:
    count = "1 record" if batch.count == 1 else f"{batch.count} records"
    return f"{count} for {batch.topic}-{batch.partition}"


def _tried(batch: ProducerBatch) -> str:
    if batch.attempts == 0:
        return ", never sent"
    return " after 1 attempt" if batch.attempts == 1 else f" after {batch.attempts} attempts"


def _nothing(*_: object) -> None:
    return

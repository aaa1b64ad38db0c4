"""Messages on their way: one courier per registration of a broker, until it has applied them all or
is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

from moldau.controller.image import ClusterImage
from moldau.controller.link import BrokerLink, ReplicaError, StopReplica
from moldau.controller.outbox import Outbox
from moldau.coordination.event_queue import EventQueue
from moldau.coordination.latch import Latch
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Clock, Timer

logger = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 0.05
LONGEST_RETRY_S: Final = 1.0
"""A broker that is back should not wait long; one that is gone is deregistered soon."""


class Delivery:
    """A change on its way: to wait for, if not on the controller's queue."""

    def __init__(self, clock: Clock) -> None:
        self.failed: dict[int, dict[tuple[str, int], ErrorCode]] = {}
        """Replicas that could not be what they should, by broker."""
        self._clock = clock
        self._open: dict[int, Courier] = {}
        self._heard: set[int] = set()
        self._settled = Latch()

    @property
    def has_failed(self) -> bool:
        """Whether a broker could not make a replica."""
        return any(self.failed.values())

    def expect(self, broker: int, courier: Courier) -> None:
        self._open[broker] = courier

    def note(self, broker: int, errors: Iterable[ReplicaError]) -> None:
        self._heard.add(broker)
        failed = self.failed.setdefault(broker, {})
        failed.update({(error.topic, error.partition): error.error for error in errors})

    def end(self, broker: int) -> None:
        """It was applied there, or will not be soon."""
        self._open.pop(broker, None)
        if not self._open:
            self._settled.open()

    async def wait(self, silence_s: float) -> None:
        """Returns when all brokers have applied it, but for those that were silent for so long:
        nobody waits for them again before they have answered. The controller's own broker may be
        busy, but is never silent.
        """
        while self._open and not await self._settled.wait(self._clock, silence_s):
            for broker, courier in list(self._open.items()):
                if broker not in self._heard and not courier.is_own:
                    courier.is_silent = True
                    self.end(broker)
            self._heard.clear()


class Answer(NamedTuple):
    """What a broker said to a message that it has applied."""

    broker: BrokerRegistration
    stops: Sequence[StopReplica]
    """The replicas that were to be stopped."""
    errors: dict[tuple[str, int], ErrorCode]
    """Replicas that could not be what they should."""


class SenderPorts(NamedTuple):
    """The way to brokers, and whom to tell what they say."""

    link: BrokerLink
    clock: Clock
    random: Random
    on_answer: Callable[[Answer], None]
    on_deposed: Callable[[], None]
    """A broker obeys a later controller."""


class Courier:
    """Carries the messages of one outbox."""

    def __init__(
        self, outbox: Outbox, image: ClusterImage, ports: SenderPorts, *, is_own: bool
    ) -> None:
        """``is_own``: the broker is the one that the controller runs on."""
        self.outbox = outbox
        self.is_own = is_own
        self._image = image
        self._ports = ports
        self._queue = EventQueue(f"outbox of broker {outbox.broker.id}")
        self._deliveries: list[tuple[int, Delivery]] = []
        self._retry: Timer | None = None
        self._backoff = Backoff(ports.clock, ports.random, FIRST_RETRY_S, LONGEST_RETRY_S)
        self.is_silent = False
        """Whether the broker does not answer these days."""

    @property
    def is_busy(self) -> bool:
        return not self._queue.is_idle

    async def drain(self) -> None:
        await self._queue.drain()

    def follow(self, delivery: Delivery) -> None:
        """The delivery ends when all that was put into the outbox so far is applied; at once, if
        the broker does not answer anyway.
        """
        if not self.is_silent and not self.outbox.is_applied:
            delivery.expect(self.outbox.broker.id, self)
            self._deliveries.append((self.outbox.added, delivery))

    def wake(self) -> None:
        """There may be something to carry; not before it is time to try again."""
        if self._retry is None and self._queue.is_idle:
            self._queue.post(self._carry)

    def close(self) -> None:
        """The registration is gone, or the controller's office."""
        if self._retry is not None:
            self._retry.cancel()
        self._queue.abandon()
        self._end_deliveries()

    async def _carry(self) -> None:
        outbox, ports = self.outbox, self._ports
        while (update := outbox.take(self._image)) is not None:
            try:
                errors = await ports.link.update(outbox.broker, update)
            except Exception as error:
                outbox.was_lost()
                self._failed(error)
                return
            self.is_silent = False
            self._backoff.reset()
            stops = outbox.was_applied()
            if errors or stops:
                failed = {(one.topic, one.partition): one.error for one in errors}
                ports.on_answer(Answer(outbox.broker, stops, failed))
            for _, delivery in self._deliveries:
                delivery.note(outbox.broker.id, errors)
            self._end_deliveries(outbox.applied)
        self._end_deliveries(outbox.applied)  # of changes that changed nothing

    def _failed(self, error: Exception) -> None:
        broker = self.outbox.broker.id
        if isinstance(error, KafkaError) and error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
            logger.info("Broker %d obeys a later controller", broker)
            self._ports.on_deposed()
        elif not self.is_silent:
            logger.warning(
                "Broker %d did not take an update, it will be told again: %s", broker, error
            )
        self.is_silent = True
        self._end_deliveries()
        delay = self._backoff.next_delay()
        self._retry = self._ports.clock.call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._queue.post(self._carry)

    def _end_deliveries(self, applied: int | None = None) -> None:
        ended = [one for one in self._deliveries if applied is None or one[0] <= applied]
        self._deliveries = [one for one in self._deliveries if one not in ended]
        for _, delivery in ended:
            delivery.end(self.outbox.broker.id)

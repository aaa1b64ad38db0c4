"""From decisions to messages: every change goes into the outbox of every live broker.

Nobody waits for a broker on the controller's queue. A courier per registration carries the
messages of its outbox, one at a time, and tries again until the broker has applied them or its
registration is gone. What the broker answers comes back as an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypedDict, Unpack

from moldau.controller.context import ControllerContext
from moldau.controller.image import ClusterImage
from moldau.controller.link import (
    BrokerLink,
    BrokerUpdate,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    ReplicaError,
    StopReplica,
)
from moldau.controller.outbox import Outbox
from moldau.coordination.event_queue import EventQueue
from moldau.coordination.latch import Latch
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Clock, Timer
from moldau.quotas.entity import ClientQuota

logger = logging.getLogger(__name__)

NO_BROKER: Final = -1
"""The epoch in a message that is not for one broker yet."""

FIRST_RETRY_S: Final = 0.05
LONGEST_RETRY_S: Final = 1.0
"""A broker that is back should not wait long; one that is gone is deregistered soon."""


class Settings(TypedDict, total=False):
    """What of a ``BrokerUpdate`` are settings; what is left out has not changed."""

    topic_configs: dict[str, dict[str, str]]
    broker_configs: dict[str, dict[str, str]]
    group_configs: dict[str, dict[str, str]]
    client_metrics_configs: dict[str, dict[str, str]]
    client_quotas: Sequence[ClientQuota]


class Delivery:
    """A change on its way: to wait for, if not on the controller's queue."""

    def __init__(self, clock: Clock) -> None:
        self.failed: dict[int, dict[tuple[str, int], ErrorCode]] = {}
        """Replicas that could not be what they should, by broker."""
        self._clock = clock
        self._open: set[int] = set()
        self._settled = Latch()

    def expect(self, broker: int) -> None:
        self._open.add(broker)

    def note(self, broker: int, errors: Iterable[ReplicaError]) -> None:
        failed = self.failed.setdefault(broker, {})
        failed.update({(error.topic, error.partition): error.error for error in errors})

    def end(self, broker: int) -> None:
        """It was applied there, or will not be soon."""
        self._open.discard(broker)
        if not self._open:
            self._settled.open()

    async def wait(self, within_s: float | None = None) -> bool:
        """Returns when all brokers have applied it that can, or time is up: whether it is not."""
        if not self._open:
            return True
        return await self._settled.wait(self._clock, within_s)


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

    def __init__(self, outbox: Outbox, image: ClusterImage, ports: SenderPorts) -> None:
        self.outbox = outbox
        self._image = image
        self._ports = ports
        self._queue = EventQueue(f"outbox of broker {outbox.broker.id}")
        self._deliveries: list[tuple[int, Delivery]] = []
        self._retry: Timer | None = None
        self._backoff = Backoff(ports.clock, ports.random, FIRST_RETRY_S, LONGEST_RETRY_S)
        self._answers = True

    @property
    def is_busy(self) -> bool:
        return not self._queue.is_idle

    async def drain(self) -> None:
        await self._queue.drain()

    def follow(self, delivery: Delivery) -> None:
        """The delivery ends when all that was put into the outbox so far is applied; at once, if
        the broker does not answer these days.
        """
        if self._answers and not self.outbox.is_applied:
            delivery.expect(self.outbox.broker.id)
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
            self._answers = True
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
        if self._answers:
            logger.warning(
                "Broker %d did not take an update, it will be told again: %s", broker, error
            )
        self._answers = False
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


class Sender:
    def __init__(self, controller_id: int, context: ControllerContext, ports: SenderPorts) -> None:
        self._controller_id = controller_id
        self._context = context
        self._ports = ports
        self._image = ClusterImage()
        self._couriers: dict[int, Courier] = {}

    # Life

    def start(self) -> None:
        """Tell all brokers everything."""
        context = self._context
        self._image = ClusterImage()
        configs = {
            name: config for name, config in context.topic_configs.items() if name in context.topics
        }
        self.send(
            list(context.partitions()),
            brokers=True,
            topic_configs=configs,
            broker_configs=context.broker_configs,
            group_configs=context.group_configs,
            client_metrics_configs=context.client_metrics_configs,
            client_quotas=[
                ClientQuota(entity, quotas) for entity, quotas in context.client_quotas.items()
            ],
        )

    def close(self) -> None:
        """Tell nobody anything any more."""
        couriers, self._couriers = self._couriers, {}
        for courier in couriers.values():
            courier.close()

    @property
    def is_busy(self) -> bool:
        """Whether a message is on its way."""
        return any(courier.is_busy for courier in self._couriers.values())

    async def drain(self) -> None:
        """Wait for the messages that are on their way."""
        for courier in list(self._couriers.values()):
            await courier.drain()

    # Sending

    def send(
        self,
        states: Sequence[LeaderAndIsr] = (),
        *,
        brokers: bool = False,
        stop: Mapping[int, Sequence[StopReplica]] | None = None,
        removed: Sequence[RemovedTopic] = (),
        **settings: Unpack[Settings],
    ) -> Delivery:
        """Changes, for all live brokers; ``brokers``: their list changed. Who is new among them is
        told everything.
        """
        context = self._context
        versions = context.topic_config_versions
        change = BrokerUpdate(
            self._controller_id,
            context.epoch,
            NO_BROKER,
            topic_config_versions={
                topic: versions[topic] for topic in settings.get("topic_configs", ())
            },
            metadata=MetadataUpdate(
                brokers=tuple(context.brokers.values()) if brokers else None,
                partitions=[state for state in states if context.existing_topic(state.topic)],
                removed_topics=removed,
            ),
            **settings,
        )
        self._image.apply(change)
        if brokers:
            self._follow_registrations()
        stops = stop or {}
        for broker, courier in self._couriers.items():
            courier.outbox.add(change, stops.get(broker, ()))
        return self.flush()

    def flush(self, to: Collection[int] | None = None) -> Delivery:
        """Returns a delivery of all that was sent so far, to all brokers or these."""
        delivery = Delivery(self._ports.clock)
        for broker, courier in self._couriers.items():
            if to is None or broker in to:
                courier.follow(delivery)
            courier.wake()
        return delivery

    def _follow_registrations(self) -> None:
        """An outbox for each registration there is, and for no other."""
        now = self._context.brokers
        for broker, courier in list(self._couriers.items()):
            registration = now.get(broker)
            if registration is None or registration.epoch != courier.outbox.broker.epoch:
                del self._couriers[broker]
                courier.close()
            else:
                courier.outbox.broker = registration  # its endpoints may have changed
        for broker, registration in now.items():
            if broker not in self._couriers:
                outbox = Outbox(self._controller_id, self._context.epoch, registration)
                self._couriers[broker] = Courier(outbox, self._image, self._ports)

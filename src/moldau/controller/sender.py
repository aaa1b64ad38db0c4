"""From decisions to messages: every change goes into the outbox of every live broker.

Nobody waits for a broker on the controller's queue. A courier per registration carries the
messages of its outbox, one at a time, and tries again until the broker has applied them or its
registration is gone. What the broker answers comes back as an event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from moldau.controller.context import ControllerContext
from moldau.controller.courier import Courier, Delivery, SenderPorts
from moldau.controller.image import ClusterImage
from moldau.controller.link import (
    BrokerUpdate,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    StopReplica,
)
from moldau.controller.outbox import Outbox
from moldau.quotas.entity import ClientQuota

NO_BROKER: Final = -1
"""The epoch in a message that is not for one broker yet."""


class Settings(TypedDict, total=False):
    """What of a ``BrokerUpdate`` are settings; what is left out has not changed."""

    topic_configs: dict[str, dict[str, str]]
    broker_configs: dict[str, dict[str, str]]
    group_configs: dict[str, dict[str, str]]
    client_metrics_configs: dict[str, dict[str, str]]
    client_quotas: Sequence[ClientQuota]


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

    def changed_rules(self) -> None:
        """What was sent last changes what leaders need to acknowledge something."""
        for courier in self._couriers.values():
            courier.outbox.changed_rules()

    def knows_rules(self, broker: int) -> bool:
        """Whether a broker has applied that."""
        courier = self._couriers.get(broker)
        return courier is not None and courier.outbox.knows_rules

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
                is_own = broker == self._controller_id
                self._couriers[broker] = Courier(outbox, self._image, self._ports, is_own=is_own)

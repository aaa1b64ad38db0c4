"""From changed states to one message per broker."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict, Unpack

import msgspec

from moldau.controller.context import ControllerContext
from moldau.controller.link import (
    BrokerLink,
    BrokerUpdate,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    StopReplica,
)
from moldau.errors import ErrorCode
from moldau.quotas.entity import ClientQuota

logger = logging.getLogger(__name__)

NO_BROKER: Final = -1
"""The epoch in a message that is not for one broker yet."""


class Settings(TypedDict, total=False):
    """What of a ``BrokerUpdate`` are settings; what is left out has not changed."""

    topic_configs: dict[str, dict[str, str]]
    broker_configs: dict[str, dict[str, str]]
    group_configs: dict[str, dict[str, str]]
    client_metrics_configs: dict[str, dict[str, str]]
    client_quotas: Sequence[ClientQuota]


@dataclass(slots=True)
class Delivery:
    """How it went: replicas that failed, by broker, and brokers that were not reached at all."""

    failed: dict[int, dict[tuple[str, int], ErrorCode]] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)

    def has_failed(self, broker: int, topic: str, partition: int) -> bool:
        return broker in self.unreachable or (topic, partition) in self.failed.get(broker, ())

    def forget_topics(self, names: Collection[str]) -> None:
        """What failed of these topics is dealt with already."""
        for broker, replicas in self.failed.items():
            self.failed[broker] = {
                replica: error for replica, error in replicas.items() if replica[0] not in names
            }


class Sender:
    def __init__(self, controller_id: int, link: BrokerLink, context: ControllerContext) -> None:
        self._controller_id = controller_id
        self._link = link
        self._context = context

    async def send_everything(self, to: Iterable[int]) -> Delivery:
        """All there is, for brokers that know nothing yet (or not whether it still holds)."""
        context = self._context
        states = list(context.partitions())
        metadata = MetadataUpdate(
            brokers=tuple(context.brokers.values()), partitions=states, full=True
        )
        configs = {
            name: config for name, config in context.topic_configs.items() if name in context.topics
        }
        update = self._update(
            metadata,
            topic_configs=configs,
            broker_configs=context.broker_configs,
            group_configs=context.group_configs,
            client_metrics_configs=context.client_metrics_configs,
            client_quotas=[
                ClientQuota(entity, quotas) for entity, quotas in context.client_quotas.items()
            ],
        )
        return await self._deliver({broker: [] for broker in to}, update)

    async def send(
        self,
        states: Sequence[LeaderAndIsr] = (),
        *,
        brokers: bool = False,
        stop: Mapping[int, Sequence[StopReplica]] | None = None,
        removed: Sequence[RemovedTopic] = (),
        to: Collection[int] | None = None,
        **settings: Unpack[Settings],
    ) -> Delivery:
        """Changes, for all live brokers or those in ``to``; ``brokers``: their list changed."""
        context = self._context
        metadata = MetadataUpdate(
            brokers=tuple(context.brokers.values()) if brokers else None,
            partitions=states,
            removed_topics=removed,
        )
        stops = stop or {}
        recipients = {
            broker: stops.get(broker, ())
            for broker in context.brokers
            if to is None or broker in to
        }
        return await self._deliver(recipients, self._update(metadata, **settings))

    def _update(self, metadata: MetadataUpdate, **settings: Unpack[Settings]) -> BrokerUpdate:
        """Returns what is the same for every broker."""
        versions = self._context.topic_config_versions
        return BrokerUpdate(
            self._controller_id,
            self._context.epoch,
            NO_BROKER,
            metadata=metadata,
            topic_config_versions={
                topic: versions[topic] for topic in settings.get("topic_configs", ())
            },
            **settings,
        )

    async def _deliver(
        self, recipients: Mapping[int, Sequence[StopReplica]], update: BrokerUpdate
    ) -> Delivery:
        context = self._context
        delivery = Delivery()
        for broker, stop in recipients.items():
            registration = context.brokers.get(broker)
            if registration is None:
                continue
            of_broker = msgspec.structs.replace(
                update,
                broker_epoch=registration.epoch,
                stop_replicas=stop,
            )
            try:
                errors = await self._link.update(registration, of_broker)
            except Exception:
                # It will register again and then be told everything.
                logger.exception("Broker %d did not take an update", broker)
                delivery.unreachable.add(broker)
                continue
            if errors:
                delivery.failed[broker] = {
                    (replica.topic, replica.partition): replica.error for replica in errors
                }
        return delivery

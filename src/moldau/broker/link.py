"""The controller's word, obeyed: settings, stopped replicas, leadership, metadata, in this order.

This is the in-process end of ``BrokerLink``. An update from a controller that has been replaced is
refused by its epoch, so that two controllers can never both be obeyed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from moldau.broker.client_quotas import ClientQuotas
from moldau.broker.configs import Configs
from moldau.broker.group_coordinator import GroupCoordinator
from moldau.broker.metadata_cache import MetadataCache, PartitionMetadata
from moldau.controller import BrokerUpdate, ControllerFence, MetadataUpdate, ReplicaError
from moldau.coordination.znodes import BrokerRegistration
from moldau.coordinators import CoordinatorRuntime
from moldau.errors import ErrorCode
from moldau.log import TopicSettings
from moldau.model import TopicPartition
from moldau.replication import ReplicaManager


class LocalLink:
    """Applies the controller's updates to this broker."""

    def __init__(
        self,
        configs: Configs,
        client_quotas: ClientQuotas,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        coordinators: CoordinatorRuntime,
        groups: GroupCoordinator,
    ) -> None:
        self._configs = configs
        self._client_quotas = client_quotas
        self._coordinators = coordinators
        self._groups = groups
        self._replicas = replicas
        self._metadata = metadata
        self._fence = ControllerFence()
        self.complete = asyncio.Event()
        """Set once everything that there is has been applied."""

    async def update(
        self, _broker: BrokerRegistration, update: BrokerUpdate
    ) -> Sequence[ReplicaError]:
        self._fence.admit(update)
        self._configure(update)
        touched = self._touched(update.metadata)
        before = self._sizes(touched)
        for removed in update.metadata.removed_topics:
            # Before their replicas stop: who waits for them is told that they are gone, and does
            # not look for another leader.
            self._metadata.remove_topic(removed.name)
        failed = await self._stop(update)
        failed += await self._replicas.apply(update.metadata.partitions)
        await self._replicas.keep_topic_configs(self._topic_settings(update))
        self._metadata.set_controller(update.controller_id)
        self._describe(update.metadata)
        self._coordinators.leadership_changed(_led_topics(update))
        self._tell_groups(before, self._sizes(touched))
        if update.metadata.full:
            self.complete.set()
        return [
            ReplicaError(topic, partition, ErrorCode.KAFKA_STORAGE_ERROR)
            for topic, partition in failed
        ]

    def _touched(self, update: MetadataUpdate) -> Collection[str]:
        """Returns the topics that an update speaks of, in its order."""
        names = dict.fromkeys(state.topic for state in update.partitions)
        names |= dict.fromkeys(removed.name for removed in update.removed_topics)
        if update.full:
            names |= dict.fromkeys(self._metadata.topics)
        return names

    def _sizes(self, names: Iterable[str]) -> dict[str, tuple[UUID, int]]:
        """Id and number of partitions of those topics that exist."""
        topics = self._metadata.topics
        return {
            name: (topics[name].topic_id, len(topics[name].partitions))
            for name in names
            if name in topics
        }

    def _tell_groups(
        self, before: Mapping[str, tuple[UUID, int]], after: Mapping[str, tuple[UUID, int]]
    ) -> None:
        """Groups assign the partitions of topics, and forget what they committed for lost ones."""
        removed = [
            (name, topic_id)
            for name, (topic_id, _) in before.items()
            if name not in after or after[name][0] != topic_id
        ]
        if removed:
            self._groups.run(lambda shard, now_ms: shard.on_topics_removed(removed, now_ms))
        names = dict.fromkeys((*before, *after))
        changed = [name for name in names if before.get(name) != after.get(name)]
        if changed:
            self._groups.run(lambda shard, now_ms: shard.on_topics_changed(changed, now_ms))

    def _configure(self, update: BrokerUpdate) -> None:
        full = update.metadata.full
        self._client_quotas.update(update.client_quotas, full=full)
        self._configs.update_groups(update.group_configs, full=full)
        self._configs.update_client_metrics(update.client_metrics_configs, full=full)
        changed = self._configs.update(update.topic_configs, update.broker_configs)
        for topic in self._replicas.topics if changed is None else changed:
            self._replicas.reconfigure(topic)

    def _topic_settings(self, update: BrokerUpdate) -> dict[str, TopicSettings]:
        """Returns what is to be kept with the partitions."""
        new = {state.topic for state in update.metadata.partitions if state.is_new}
        return {
            topic: TopicSettings(version, update.topic_configs[topic], topic in new)
            for topic, version in update.topic_config_versions.items()
        }

    async def _stop(self, update: BrokerUpdate) -> list[TopicPartition]:
        failed: list[TopicPartition] = []
        for delete in (False, True):
            stopped = [
                TopicPartition(stop.topic, stop.partition)
                for stop in update.stop_replicas
                if stop.delete is delete
            ]
            if stopped:
                failed += await self._replicas.stop(stopped, delete=delete)
        return failed

    def _describe(self, update: MetadataUpdate) -> None:
        metadata = self._metadata
        if update.brokers is not None:
            metadata.set_brokers(update.brokers)
            self._replicas.set_brokers({broker.id: broker.epoch for broker in update.brokers})
        for removed in update.removed_topics:
            metadata.remove_topic(removed.name)
            self._configs.forget_topic(removed.name)
        if update.full:
            present = {state.topic for state in update.partitions}
            for name in [name for name in metadata.topics if name not in present]:
                metadata.remove_topic(name)
        for state in update.partitions:
            metadata.set_partition(
                state.topic,
                state.topic_id,
                state.partition,
                PartitionMetadata(
                    state.leader,
                    state.leader_epoch,
                    state.replicas,
                    state.isr,
                    state.offline_replicas,
                ),
            )


def _led_topics(update: BrokerUpdate) -> set[str]:
    """Returns the topics of which this broker may have got or lost a leadership."""
    led = {state.topic for state in update.metadata.partitions}
    return led | {stop.topic for stop in update.stop_replicas}

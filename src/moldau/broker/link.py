"""The controller's word, obeyed: settings, stopped replicas, leadership, metadata, in this order.

This is the broker's end of ``BrokerLink``. Updates are applied one at a time. One from a controller
that has been replaced is refused by its epoch, and given up where it is if a later controller's
comes meanwhile, so that two controllers can never both be obeyed. After an update that was missed
or failed, nothing is obeyed but everything.

No log is deleted because a topic is not named: only as the controller says, by topic id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

from moldau.broker.client_quotas import ClientQuotas
from moldau.broker.configs import Configs
from moldau.broker.group_coordinator import GroupCoordinator
from moldau.broker.metadata_cache import MetadataCache, PartitionMetadata
from moldau.broker.turns import others_turn
from moldau.controller import (
    BrokerUpdate,
    ControllerFence,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    ReplicaError,
    StopReplica,
)
from moldau.coordination.znodes import BrokerRegistration
from moldau.coordinators import CoordinatorRuntime
from moldau.errors import ErrorCode
from moldau.log import TopicSettings
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.replication import ReplicaManager

log = logging.getLogger(__name__)


PARTITIONS_PER_SLICE: Final = 500
"""So many replicas are taken up at a time, with everybody else's turn in between."""


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
        broker_epoch: Callable[[], int],
    ) -> None:
        self._node_id = configs.broker.node_id
        self._configs = configs
        self._client_quotas = client_quotas
        self._coordinators = coordinators
        self._groups = groups
        self._replicas = replicas
        self._metadata = metadata
        self._fence = ControllerFence(broker_epoch)
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[list[ReplicaError]]] = set()
        self._named: dict[str, set[int]] = {}
        """The topics named since the last full update began: which of their partitions have a
        replica here.
        """
        self._known_to_groups: dict[str, tuple[UUID, int] | None] = {}
        """Topics that groups have not heard the latest of: as they know them."""
        self.complete = asyncio.Event()
        """Set once everything that there is has been applied."""

    async def update(
        self, _broker: BrokerRegistration, update: BrokerUpdate
    ) -> Sequence[ReplicaError]:
        """Raises KafkaError: STALE_CONTROLLER_EPOCH and STALE_BROKER_EPOCH if it is not to be
        obeyed, INVALID_UPDATE_VERSION if everything has to be sent.
        """
        self._fence.admit(update)
        # In a task of its own: an update that has begun is finished, though nobody waits for it.
        task = asyncio.ensure_future(self._in_turn(update))
        self._under_way.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for what has begun."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _finished(self, task: asyncio.Task[list[ReplicaError]]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # who sent it has heard, if anybody waits

    async def _in_turn(self, update: BrokerUpdate) -> list[ReplicaError]:
        async with self._turn:
            self._fence.begin(update)
            errors = await self._apply(update)
            self._fence.end()
        return errors

    async def _apply(self, update: BrokerUpdate) -> list[ReplicaError]:
        metadata, check = update.metadata, self._fence.check
        if metadata.full:
            # Words were missed, or may have been: until all has come again, topics may be missing.
            self._metadata.is_complete = False
        self._note_topics(metadata)
        self._name(metadata)
        # Before their replicas stop: who waits for them is told that they are gone, and does not
        # look for another leader. Before the settings: there may be some of a later namesake.
        self._remove_topics(metadata.removed_topics)
        self._configure(update)
        if metadata.brokers is not None:
            self._metadata.set_brokers(metadata.brokers)  # leaders, for who has to follow
            self._replicas.set_brokers({broker.id: broker.epoch for broker in metadata.brokers})
        errors = await self._stop(update.stop_replicas)
        check(update)
        for some in _slices(metadata.partitions):
            errors += _storage_errors(await self._replicas.apply(some))
            await others_turn()
            check(update)
        await self._replicas.keep_topic_configs(self._topic_settings(update))
        check(update)
        led = _led_topics(update)
        if metadata.full_ends:
            led |= await self._stop_unassigned()
            check(update)
        self._metadata.set_controller(update.controller_id)
        self._describe(metadata)
        if metadata.full_ends:
            self._metadata.is_complete = True
        self._coordinators.leadership_changed(led)
        self._tell_groups()
        if metadata.full_ends:
            self.complete.set()
        return errors

    # Groups

    def _note_topics(self, update: MetadataUpdate) -> None:
        """Remember what groups know of the topics that an update speaks of, in its order."""
        names = [state.topic for state in update.partitions]
        names += [removed.name for removed in update.removed_topics]
        if update.full_ends:
            names += self._metadata.topics
        for name in dict.fromkeys(names):
            self._known_to_groups.setdefault(name, self._size(name))

    def _size(self, name: str) -> tuple[UUID, int] | None:
        """Id and number of partitions of a topic, if it exists."""
        topic = self._metadata.topics.get(name)
        return None if topic is None else (topic.topic_id, len(topic.partitions))

    def _tell_groups(self) -> None:
        """Groups assign the partitions of topics, and forget what they committed for lost ones."""
        before, self._known_to_groups = self._known_to_groups, {}
        after = {name: self._size(name) for name in before}
        removed = [
            (name, known[0])
            for name, known in before.items()
            if known is not None and known[0] != (after[name] or (None,))[0]
        ]
        if removed:
            self._groups.run(lambda shard, now_ms: shard.on_topics_removed(removed, now_ms))
        changed = [name for name, known in before.items() if known != after[name]]
        if changed:
            self._groups.run(lambda shard, now_ms: shard.on_topics_changed(changed, now_ms))

    # Settings

    def _configure(self, update: BrokerUpdate) -> None:
        full = update.metadata.full  # these all come with the first part of everything
        self._client_quotas.update(update.client_quotas, full=full)
        self._configs.update_groups(update.group_configs, full=full)
        self._configs.update_client_metrics(update.client_metrics_configs, full=full)
        broker_configs = update.broker_configs
        if full:
            broker_configs = self._configs.forgotten_broker_configs(broker_configs) | broker_configs
        changed = self._configs.update(update.topic_configs, broker_configs)
        for topic in self._replicas.topics if changed is None else changed:
            self._replicas.reconfigure(topic)

    def _topic_settings(self, update: BrokerUpdate) -> dict[str, TopicSettings]:
        """Returns what is to be kept with the partitions."""
        new = {state.topic for state in update.metadata.partitions if state.is_new}
        return {
            topic: TopicSettings(version, update.topic_configs[topic], topic in new)
            for topic, version in update.topic_config_versions.items()
        }

    # Replicas

    async def _stop(self, stops: Sequence[StopReplica]) -> list[ReplicaError]:
        """Stop replicas, but none of a later topic of the same name, nor of a later leadership than
        the controller knew of.
        """
        errors: list[ReplicaError] = []
        wanted: dict[bool, list[TopicPartition]] = {False: [], True: []}
        for stop in stops:
            topic_partition = TopicPartition(stop.topic, stop.partition)
            here = self._replicas.describe(topic_partition)
            if here is None or here.topic_id in (stop.topic_id, NO_TOPIC_ID):
                if here is not None and stop.leader_epoch < here.leader_epoch:
                    error = ReplicaError(*topic_partition, ErrorCode.FENCED_LEADER_EPOCH)
                    errors.append(error)
                else:
                    wanted[stop.delete].append(topic_partition)
        for delete, stopped in wanted.items():
            if stopped:
                failed = await self._replicas.stop(stopped, delete=delete)
                errors += _storage_errors(failed)
        return errors

    async def _stop_unassigned(self) -> set[str]:
        """Everything was named: serve no replica that was not; returns the topics of those. Their
        logs stay, perhaps for a later word of the controller.
        """
        strays = [
            partition.topic_partition
            for topic, partitions in self._replicas.topics.items()
            for index, partition in partitions.items()
            if index not in self._named.get(topic, ())
        ]
        if strays:
            log.info("%d replicas are not assigned to this broker any more", len(strays))
            await self._replicas.stop(strays, delete=False)
        return {topic for topic, _ in strays}

    # Metadata

    def _remove_topics(self, topics: Iterable[RemovedTopic]) -> None:
        for removed in topics:
            known = self._metadata.topics.get(removed.name)
            if known is None or known.topic_id == removed.topic_id:
                self._metadata.remove_topic(removed.name)
                self._configs.forget_topic(removed.name)

    def _describe(self, update: MetadataUpdate) -> None:
        metadata = self._metadata
        if update.full_ends:
            for name in [name for name in metadata.topics if name not in self._named]:
                metadata.remove_topic(name)
            self._configs.forget_topics_except(self._named)
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
                    state.partition_epoch,
                    state.elr,
                ),
            )

    def _name(self, update: MetadataUpdate) -> None:
        if update.full:
            self._named = {}
        for state in update.partitions:
            here = self._named.setdefault(state.topic, set())
            if self._node_id in state.replicas:
                here.add(state.partition)
            else:
                here.discard(state.partition)


def _slices(states: Sequence[LeaderAndIsr]) -> Iterator[Sequence[LeaderAndIsr]]:
    for first in range(0, len(states), PARTITIONS_PER_SLICE):
        yield states[first : first + PARTITIONS_PER_SLICE]


def _storage_errors(failed: Iterable[TopicPartition]) -> list[ReplicaError]:
    return [
        ReplicaError(topic, partition, ErrorCode.KAFKA_STORAGE_ERROR) for topic, partition in failed
    ]


def _led_topics(update: BrokerUpdate) -> set[str]:
    """Returns the topics of which this broker may have got or lost a leadership."""
    led = {state.topic for state in update.metadata.partitions}
    return led | {stop.topic for stop in update.stop_replicas}

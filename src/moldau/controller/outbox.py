"""What one life of one broker has still to be told: pure, and told to no one by itself.

Changes wait here while an earlier message is under way, coalesced: of each partition and each
setting only what holds last. One message is out at a time. If nobody knows what became of it, the
broker is sent everything next: then nothing needs to be remembered for a broker that does not
answer, however long, but what it has to stop.

A message has about ``PARTITIONS_PER_UPDATE`` partitions, whole topics always, so that neither side
is busy with one for long. Everything, too, comes in as many messages as that takes: the first has
``metadata.full``, the last ``metadata.full_ends``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from moldau.controller.image import (
    ClusterImage,
    Configs,
    Partitions,
    drop_topic,
    put_partitions,
)
from moldau.controller.link import (
    BrokerUpdate,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    StopReplica,
)
from moldau.coordination.znodes import BrokerRegistration
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity

PARTITIONS_PER_UPDATE: Final = 1000


class _Pending:
    """Changes that wait, coalesced."""

    def __init__(self) -> None:
        self.brokers: tuple[BrokerRegistration, ...] | None = None
        self.removed: dict[UUID, RemovedTopic] = {}
        self.stops: dict[tuple[UUID, int], StopReplica] = {}
        self.partitions: Partitions = {}
        self.topic_configs: Configs = {}
        self.topic_config_versions: dict[str, int] = {}
        self.broker_configs: Configs = {}
        self.group_configs: Configs = {}
        self.client_metrics_configs: Configs = {}
        self.client_quotas: dict[ClientQuotaEntity, ClientQuota] = {}

    @classmethod
    def everything(cls, image: ClusterImage) -> _Pending:
        pending = cls()
        pending.brokers = image.brokers
        pending.partitions = {name: dict(states) for name, states in image.partitions.items()}
        # Also of topics without settings: the broker may remember some.
        pending.topic_configs = {name: {} for name in image.partitions} | image.topic_configs
        pending.topic_config_versions = dict(image.topic_config_versions)
        pending.broker_configs = dict(image.broker_configs)
        pending.group_configs = dict(image.group_configs)
        pending.client_metrics_configs = dict(image.client_metrics_configs)
        pending.client_quotas = dict(image.client_quotas)
        return pending

    def add(self, change: BrokerUpdate) -> None:
        metadata = change.metadata
        if metadata.brokers is not None:
            self.brokers = metadata.brokers
        for removed in metadata.removed_topics:
            if drop_topic(self.partitions, removed.name, removed.topic_id):
                self.topic_configs.pop(removed.name, None)
                self.topic_config_versions.pop(removed.name, None)
            self.removed[removed.topic_id] = removed
        put_partitions(self.partitions, metadata.partitions)
        self.topic_configs |= change.topic_configs
        self.topic_config_versions |= change.topic_config_versions
        self.broker_configs |= change.broker_configs
        self.group_configs |= change.group_configs
        self.client_metrics_configs |= change.client_metrics_configs
        self.client_quotas |= {quota.entity: quota for quota in change.client_quotas}

    def add_stops(self, stops: Iterable[StopReplica]) -> None:
        """Of two for one replica the stricter one counts."""
        for stop in stops:
            key = (stop.topic_id, stop.partition)
            known = self.stops.get(key)
            if known is not None:
                stop = msgspec.structs.replace(
                    stop,
                    delete=stop.delete or known.delete,
                    leader_epoch=max(stop.leader_epoch, known.leader_epoch),
                )
            self.stops[key] = stop

    def __bool__(self) -> bool:
        return self.brokers is not None or any(
            (
                self.removed,
                self.stops,
                self.partitions,
                self.topic_configs,
                self.broker_configs,
                self.group_configs,
                self.client_metrics_configs,
                self.client_quotas,
            )
        )

    def take_stops(self, size: int) -> list[StopReplica]:
        keys = list(self.stops)[:size]
        return [self.stops.pop(key) for key in keys]

    def take_partitions(self, size: int) -> list[LeaderAndIsr]:
        """Returns the partitions of some topics; of none while replicas wait to be stopped, which
        may be those of an earlier topic of the same name.
        """
        taken: list[LeaderAndIsr] = []
        while not self.stops and self.partitions and len(taken) < size:
            taken += self.partitions.pop(next(iter(self.partitions))).values()
        return taken

    def take_topic_configs(self) -> tuple[Configs, dict[str, int]]:
        """Returns the settings of topics whose partitions do not wait any more, and versions."""
        configs = {
            name: config
            for name, config in self.topic_configs.items()
            if name not in self.partitions
        }
        for name in configs:
            del self.topic_configs[name]
        versions = {
            name: self.topic_config_versions.pop(name)
            for name in configs
            if name in self.topic_config_versions
        }
        return configs, versions


class Outbox:
    """The messages to one registration of a broker, in order."""

    def __init__(
        self, controller_id: int, controller_epoch: int, broker: BrokerRegistration
    ) -> None:
        self.broker = broker
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._pending = _Pending()
        self._needs_everything = True
        """Whether the broker knows nothing, or nobody knows what."""
        self._in_full = False
        """Whether a part of everything has been sent, and not all."""
        self._sequence = 0
        self._under_way: BrokerUpdate | None = None
        self._reaches = 0
        self.added = 1
        """How many changes were ever put in here; all that was before is the first."""
        self.applied = 0
        """How many of them the broker has applied."""
        self._rules = self.added
        """The last of them that says by which rules leaders go."""

    @property
    def is_applied(self) -> bool:
        """Whether the broker has applied all there is to say."""
        return self.applied == self.added

    @property
    def knows_rules(self) -> bool:
        """Whether the broker goes by the rules that the controller decides by."""
        return self.applied >= self._rules

    def changed_rules(self) -> None:
        """What was added last has other rules."""
        self._rules = self.added

    def add(self, change: BrokerUpdate, stops: Collection[StopReplica] = ()) -> None:
        self.added += 1
        if not self._needs_everything:
            self._pending.add(change)
        self._pending.add_stops(stops)

    def take(self, image: ClusterImage) -> BrokerUpdate | None:
        """Returns the next message; None if there is nothing to say, or one is under way."""
        if self._under_way is not None:
            return None
        begins = self._needs_everything
        if begins:
            stops, self._pending = self._pending.stops, _Pending.everything(image)
            self._pending.stops = stops
            self._needs_everything, self._in_full = False, True
        pending = self._pending
        if not pending and not self._in_full:
            self.applied = self.added
            return None
        stopped = pending.take_stops(PARTITIONS_PER_UPDATE)
        partitions = pending.take_partitions(PARTITIONS_PER_UPDATE - len(stopped))
        topic_configs, versions = pending.take_topic_configs()
        ends = self._in_full and not (pending.stops or pending.partitions)
        update = BrokerUpdate(
            self._controller_id,
            self._controller_epoch,
            self.broker.epoch,
            self._sequence,
            topic_configs=topic_configs,
            topic_config_versions=versions,
            broker_configs=pending.broker_configs,
            group_configs=pending.group_configs,
            client_metrics_configs=pending.client_metrics_configs,
            client_quotas=list(pending.client_quotas.values()),
            stop_replicas=stopped,
            metadata=MetadataUpdate(
                brokers=pending.brokers,
                partitions=partitions,
                removed_topics=list(pending.removed.values()),
                full=begins,
                full_ends=ends,
            ),
        )
        self._sequence += 1
        self._under_way = update
        self._keep_the_rest(pending)
        self._reaches = self.applied if self._pending else self.added
        return update

    def _keep_the_rest(self, taken: _Pending) -> None:
        rest = self._pending = _Pending()
        rest.stops, rest.partitions = taken.stops, taken.partitions
        rest.topic_configs = taken.topic_configs
        rest.topic_config_versions = taken.topic_config_versions

    def was_applied(self) -> Sequence[StopReplica]:
        """The broker has applied the message that was under way; returns what it had to stop."""
        update, self._under_way = self._under_way, None
        assert update is not None
        self.applied = self._reaches
        if update.metadata.full_ends:
            self._in_full = False
        return update.stop_replicas

    def was_lost(self) -> None:
        """Nobody knows whether the broker got the message that was under way, or it refused it."""
        update, self._under_way = self._under_way, None
        assert update is not None
        waiting = self._pending
        self._pending = _Pending()
        self._pending.add_stops(update.stop_replicas)
        self._pending.add_stops(waiting.stops.values())
        self._needs_everything, self._in_full = True, False

"""The cluster as brokers should know it: what one is sent that knows nothing, or missed something.

It is made of all that was ever sent, and so is never half of a decision that is still being
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from moldau.controller.link import BrokerUpdate, LeaderAndIsr
from moldau.coordination.znodes import BrokerRegistration
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity

Configs = dict[str, dict[str, str]]
Partitions = dict[str, dict[int, LeaderAndIsr]]
"""By name of the topic and number."""


class ClusterImage:
    """``change`` is a ``BrokerUpdate`` as far as it is the same for every broker."""

    def __init__(self) -> None:
        self.brokers: tuple[BrokerRegistration, ...] = ()
        self.partitions: Partitions = {}
        self.topic_configs: Configs = {}
        self.topic_config_versions: dict[str, int] = {}
        self.broker_configs: Configs = {}
        self.group_configs: Configs = {}
        self.client_metrics_configs: Configs = {}
        self.client_quotas: dict[ClientQuotaEntity, ClientQuota] = {}

    def apply(self, change: BrokerUpdate) -> None:
        metadata = change.metadata
        if metadata.brokers is not None:
            self.brokers = metadata.brokers
        for removed in metadata.removed_topics:
            if drop_topic(self.partitions, removed.name, removed.topic_id):
                self.topic_configs.pop(removed.name, None)
                self.topic_config_versions.pop(removed.name, None)
        # What is new is so only once: later its log may be where a broker cannot look.
        put_partitions(
            self.partitions,
            (
                msgspec.structs.replace(state, is_new=False) if state.is_new else state
                for state in metadata.partitions
            ),
        )
        self.topic_configs |= change.topic_configs
        self.topic_config_versions |= change.topic_config_versions
        self.broker_configs |= change.broker_configs
        _put_or_forget(self.group_configs, change.group_configs)
        _put_or_forget(self.client_metrics_configs, change.client_metrics_configs)
        for quota in change.client_quotas:
            if quota.quotas:
                self.client_quotas[quota.entity] = quota
            else:
                self.client_quotas.pop(quota.entity, None)


def put_partitions(partitions: Partitions, states: Iterable[LeaderAndIsr]) -> None:
    """Put states over earlier ones; a topic of another id replaces its namesake."""
    for state in states:
        of_topic = partitions.get(state.topic)
        if of_topic is None or _topic_id(of_topic) != state.topic_id:
            of_topic = partitions[state.topic] = {}
        of_topic[state.partition] = state


def drop_topic(partitions: Partitions, name: str, topic_id: object) -> bool:
    """Forget a topic, but not a later one of the same name; returns whether that is not there."""
    of_topic = partitions.get(name)
    if of_topic is not None and _topic_id(of_topic) != topic_id:
        return False
    partitions.pop(name, None)
    return True


def _topic_id(of_topic: Mapping[int, LeaderAndIsr]) -> object:
    return next((state.topic_id for state in of_topic.values()), None)


def _put_or_forget(known: Configs, changed: Mapping[str, dict[str, str]]) -> None:
    """What has no settings any more is forgotten."""
    for name, config in changed.items():
        if config:
            known[name] = config
        else:
            known.pop(name, None)

"""Which partitions a topic has.

Brokers of ZooKeeper's time register topics there. Today's do not, or in another ensemble; then
Kafka's own metadata tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from moldau.client.cluster import Cluster
from moldau.client.errors import UnknownTopicError
from moldau.client.metadata import ClusterMetadata
from moldau.coordination import paths, znodes
from moldau.coordination.store import CoordinationStore, Watch


class TopicSource(Protocol):
    async def partitions(
        self, store: CoordinationStore, topic: str, watch: Watch
    ) -> Collection[int]:
        """The partitions of a topic, none if there is no such topic; the watch fires when that
        may have changed."""
        ...


class ClusterTopics:
    """ZooKeeper first, then the cluster."""

    def __init__(self, cluster: Cluster, changed: Callable[[], object]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._told: dict[str, int] = {}
        cluster.on_update.append(self._on_update)
        cluster.topics_of_interest = lambda: list(self._told)

    async def partitions(
        self, store: CoordinationStore, topic: str, watch: Watch
    ) -> Collection[int]:
        path = paths.topic(topic)
        if await store.exists(path, watch) is not None:
            (node,) = await store.get_many([path])
            if node is not None:
                return sorted(znodes.decode_topic(topic, node[0]).partitions)
        try:
            partitions = sorted((await self._cluster.topic(topic)).partitions)
        except UnknownTopicError:
            partitions = []
        self._told[topic] = len(partitions)
        return partitions

    def _on_update(self, metadata: ClusterMetadata) -> None:
        """Metadata is asked for anew now and then: has a topic grown?"""
        for topic, count in self._told.items():
            info = metadata.topics.get(topic)
            if info is not None and len(info.partitions) != count:
                self._changed()
                return

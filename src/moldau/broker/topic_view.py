"""The cluster's topics, as coordinators may see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from moldau.broker.metadata_cache import MetadataCache


class MetadataTopics:
    """A ``TopicView`` over what this broker knows of the cluster."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def partitions(self, topic: str) -> int | None:
        return self._metadata.partition_count(topic)

    def topic_id(self, topic: str) -> UUID | None:
        metadata = self._metadata.topics.get(topic)
        return None if metadata is None else metadata.topic_id

    def name(self, topic_id: UUID) -> str | None:
        metadata = self._metadata.topics_by_id.get(topic_id)
        return None if metadata is None else metadata.name

    def names(self) -> Iterable[str]:
        return self._metadata.topics.keys()

    def racks(self, topic: str) -> Sequence[Collection[str]]:
        brokers = self._metadata.brokers
        racks = {broker.id: broker.rack for broker in brokers.values() if broker.rack}
        metadata = self._metadata.topics.get(topic)
        if metadata is None or not racks:
            return ()
        return [
            {racks[replica] for replica in state.replicas if replica in racks}
            for _, state in sorted(metadata.partitions.items())
        ]

"""The offsets topic: made when the first client looks for a group's coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from moldau.broker.metadata_cache import MetadataCache
from moldau.config.values.broker import BrokerConfig
from moldau.controller import Controller, NewTopic
from moldau.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"


class OffsetsTopic:
    """Creates ``__consumer_offsets`` once, however many ask for it."""

    def __init__(
        self,
        metadata: MetadataCache,
        config: Callable[[], BrokerConfig],
        controller: Callable[[], Controller],
    ) -> None:
        self._metadata = metadata
        self._config = config
        self._controller = controller
        self._creating = asyncio.Lock()

    @property
    def exists(self) -> bool:
        return OFFSETS_TOPIC in self._metadata.topics

    @property
    def partitions(self) -> int:
        """How many partitions groups are spread over."""
        topic = self._metadata.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        return self._config().offsets_topic_num_partitions

    async def create(self) -> None:
        """Create the topic if it is not there; COORDINATOR_NOT_AVAILABLE if that fails."""
        async with self._creating:
            if self.exists:
                return
            (result,) = await self._controller().create_topics([self._new_topic()])
        if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning("cannot create %s: %s", OFFSETS_TOPIC, result.message or result.error.name)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.message)

    def _new_topic(self) -> NewTopic:
        config = self._config()
        return NewTopic(
            name=OFFSETS_TOPIC,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=self._replication_factor(config),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def _replication_factor(self, config: BrokerConfig) -> int:
        """Kafka's default of 3 is for clusters: unless it was asked for, a smaller one may start.

        Kafka's sample configuration for a single broker sets it to 1 for the same reason.
        """
        factor = config.offsets_topic_replication_factor
        if BrokerConfig.offsets_topic_replication_factor.name in config.explicit:
            return factor
        return min(factor, max(len(self._metadata.brokers), 1))

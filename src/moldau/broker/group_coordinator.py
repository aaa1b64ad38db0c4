"""The group coordinator, as it is registered with the runtime of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.configs import Configs
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.topic_view import MetadataTopics
from moldau.config import BrokerConfig
from moldau.config.group_options import (
    OFFSETS_COMMIT_TIMEOUT_MS,
    OFFSETS_LOAD_BUFFER_SIZE,
    OFFSETS_TOPIC_COMPRESSION_CODEC,
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
)
from moldau.controller import NewTopic
from moldau.coordinators import Coordinator, CoordinatorSpec
from moldau.groups.settings import GroupSettings
from moldau.machine import Machine
from moldau.records.compression import Compression

if TYPE_CHECKING:
    from moldau.groups.shard import GroupShard

GroupCoordinator: TypeAlias = "Coordinator[GroupShard]"

OFFSETS_TOPIC = "__consumer_offsets"


def group_coordinator_spec(
    configs: Configs, metadata: MetadataCache, machine: Machine
) -> CoordinatorSpec[GroupShard]:
    settings = GroupSettings.from_config(configs.broker, configs.group)
    topics = MetadataTopics(metadata)

    def new_shard() -> GroupShard:
        # The messages of a dozen APIs come with it; a broker without groups starts without them.
        from moldau.groups.shard import GroupShard

        return GroupShard(settings, topics, machine.new_uuid)

    return CoordinatorSpec(
        OFFSETS_TOPIC,
        new_topic=lambda: _offsets_topic(configs.broker, len(metadata.brokers)),
        new_shard=new_shard,
        compression=lambda: Compression(configs.broker[OFFSETS_TOPIC_COMPRESSION_CODEC]),
        commit_timeout_ms=lambda: configs.broker[OFFSETS_COMMIT_TIMEOUT_MS],
        load_buffer_bytes=lambda: configs.broker[OFFSETS_LOAD_BUFFER_SIZE],
    )


def _offsets_topic(config: BrokerConfig, live_brokers: int) -> NewTopic:
    factor = config[OFFSETS_TOPIC_REPLICATION_FACTOR]
    if OFFSETS_TOPIC_REPLICATION_FACTOR.name not in config.explicit:
        # Kafka's default of 3 is for clusters: unless it was asked for, a smaller one may start.
        # Kafka's sample configuration for a single broker sets it to 1 for the same reason.
        factor = min(factor, max(live_brokers, 1))
    return NewTopic(
        name=OFFSETS_TOPIC,
        num_partitions=config[OFFSETS_TOPIC_NUM_PARTITIONS],
        replication_factor=factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config[OFFSETS_TOPIC_SEGMENT_BYTES]),
        },
    )

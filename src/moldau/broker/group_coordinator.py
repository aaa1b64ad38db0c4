"""The group coordinator, as it is registered with the runtime of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.configs import Configs
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.topic_view import MetadataTopics
from moldau.config.values.broker import BrokerConfig
from moldau.controller import NewTopic
from moldau.coordinators import Coordinator, CoordinatorSpec
from moldau.groups.memory import GroupMemory
from moldau.groups.settings import GroupSettings
from moldau.late_imports import late_import
from moldau.machine import Machine
from moldau.records.compression import Compression

if TYPE_CHECKING:
    from moldau.groups.shard import GroupShard

GroupCoordinator: TypeAlias = "Coordinator[GroupShard]"

OFFSETS_TOPIC = "__consumer_offsets"


def group_coordinator_spec(
    configs: Configs, metadata: MetadataCache, machine: Machine, *, alone: bool = True
) -> CoordinatorSpec[GroupShard]:
    """``alone``: there can be no other broker in the cluster."""
    settings = GroupSettings.from_config(configs.broker, configs.group)
    topics = MetadataTopics(metadata)
    memory = GroupMemory()

    def new_shard() -> GroupShard:
        # The messages of a dozen APIs come with it; a broker without groups starts without them.
        make: type[GroupShard] = late_import("moldau.groups.shard").GroupShard
        return make(settings, topics, machine.new_uuid, memory)

    return CoordinatorSpec(
        OFFSETS_TOPIC,
        new_topic=lambda: _offsets_topic(configs.broker, alone=alone),
        new_shard=new_shard,
        compression=lambda: Compression(configs.broker.offsets_topic_compression_codec),
        commit_timeout_ms=lambda: configs.broker.offsets_commit_timeout_ms,
        load_buffer_bytes=lambda: configs.broker.offsets_load_buffer_size,
    )


def _offsets_topic(config: BrokerConfig, *, alone: bool) -> NewTopic:
    """With fewer brokers than its factor it is not made: clients hear that no coordinator is
    available, and ask again. A topic made while others start would stay as small as it was then.
    """
    factor = config.offsets_topic_replication_factor
    if alone and BrokerConfig.offsets_topic_replication_factor.name not in config.explicit:
        # Kafka's default of 3 is for clusters. Its sample configuration for a single broker sets it
        # to 1.
        factor = 1
    return NewTopic(
        name=OFFSETS_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=factor,
        configs=offsets_topic_configs(config),
    )


def offsets_topic_configs(config: BrokerConfig) -> dict[str, str]:
    """Returns the settings that the topic is created with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }

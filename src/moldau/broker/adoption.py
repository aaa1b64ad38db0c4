"""Taking stock at the start: what is in the log directories, held against the coordination store.

A directory that Apache Kafka wrote becomes topics of this cluster, once, when the store does not
know its cluster yet (ADR 6). Afterwards the store is the truth, except for what it lost (ADR 18).
A store that brokers share is the truth from the beginning: none of them may say what topics there
are by what it happens to have on its disks. What it has of others stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from moldau.broker.configs import Configs
from moldau.broker.group_coordinator import OFFSETS_TOPIC, offsets_topic_configs
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.controller.adoption import KEEP_EVERYTHING, FoundPartition, plan_adoption, write_batches
from moldau.controller.kraft_image import MetadataImage
from moldau.controller.loading import load_stored
from moldau.controller.stray_topics import Comparison, FoundOnDisk, KeptConfig, compare
from moldau.coordination.store import CoordinationStore
from moldau.log import LogManager, PartitionLog
from moldau.log.files.names import CLUSTER_METADATA_TOPIC
from moldau.machine import Disk, Machine
from moldau.model import NO_TOPIC_ID, TopicPartition

log = logging.getLogger(__name__)

CHECKPOINT_SUFFIX = ".checkpoint"
SEGMENT_SUFFIX = ".log"
_MOST_LINES = 100


async def take_stock(
    store: CoordinationStore,
    machine: Machine,
    log_dirs: Sequence[str],
    logs: LogManager,
    configs: Configs,
    *,
    is_new: bool,
) -> dict[str, str]:
    """Bring the store up to what is in the directories; returns names that must not be used for
    new topics, and why.
    """
    config = configs.broker
    kept_configs = await logs.topic_configs.read()
    if is_new and not kept_configs and store.can_lose_changes:
        return await _adopt_directories(store, machine, log_dirs, logs, config)
    stored = await load_stored(store)
    stored.is_new = is_new
    comparison = compare(
        stored,
        FoundOnDisk(
            partitions=[_found(partition) for partition in logs.logs.values()],
            configs={topic: KeptConfig(*kept) for topic, kept in kept_configs.items()},
            deleted=logs.deleted,
            next_producer_id=_next_producer_id(logs.logs.values()),
            unopened={*logs.offline, *logs.left_alone},
            complete=not logs.offline and len(logs.online_dirs) == len(log_dirs),
        ),
        config.node_id,
        policy=config.stray_topics_policy,
        known_configs={OFFSETS_TOPIC: offsets_topic_configs(config)},
    )
    _report(comparison)
    # Until there is a topic of that name again, with settings of its own.
    configs.update({topic: dict(KEEP_EVERYTHING) for topic in comparison.unknown}, {})
    for partition, reason in comparison.left_alone.items():
        logs.leave_alone(TopicPartition(*partition), reason)
    await write_batches(store, comparison.batches)
    return comparison.strays


def _report(comparison: Comparison) -> None:
    told = "the coordination store and the log directories differ"
    for sentence in comparison.news[:_MOST_LINES]:
        log.warning("%s: %s", told, sentence)
    if len(comparison.news) > _MOST_LINES:
        log.warning("%s in %d things in all", told, len(comparison.news))


async def _adopt_directories(
    store: CoordinationStore,
    machine: Machine,
    log_dirs: Sequence[str],
    logs: LogManager,
    config: BrokerConfig,
) -> dict[str, str]:
    """Make topics of the partitions that are already there; returns as ``take_stock``."""
    if not logs.logs:
        return {}
    image = await machine.threads.run(_read_image, machine.disk, log_dirs)
    plan = plan_adoption(
        [_found(partition) for partition in logs.logs.values()],
        config.node_id,
        machine.new_uuid,
        image=image,
        topic_configs={OFFSETS_TOPIC: offsets_topic_configs(config)},
        next_producer_id=_next_producer_id(logs.logs.values()),
    )
    for warning in plan.warnings:
        log.warning("%s", warning)
    if plan.without_settings:
        log.warning(
            "nobody knows the settings of %d topics, among them %s: nothing of them is deleted or "
            "compacted until somebody sets their cleanup.policy ('moldau config alter topic %s "
            "cleanup.policy=delete', or compact)",
            len(plan.without_settings),
            ", ".join(plan.without_settings[:10]),
            plan.without_settings[0],
        )
    for partition in [one for one in logs.logs if one.topic in plan.left_alone]:
        logs.leave_alone(partition, plan.left_alone[partition.topic])
    await write_batches(store, plan.batches)
    log.info("adopted %d topics from %s", len(plan.topics), ", ".join(log_dirs))
    return plan.left_alone


def while_unknown(
    topic_config: Callable[[str], TopicConfig], known: Collection[str]
) -> Callable[[str], TopicConfig]:
    """Settings to open logs with before anybody knows whose those are that the store does not know.

    Any of them may have been compacted, so a gap in the offsets must not be taken for lost data.
    """
    policy = frozenset({"compact", "delete"})

    def of(topic: str) -> TopicConfig:
        config = topic_config(topic)
        return config if topic in known else replace(config, cleanup_policy=policy)

    return of


def _found(partition: PartitionLog) -> FoundPartition:
    topic, index = partition.topic_partition
    topic_id = None if partition.topic_id == NO_TOPIC_ID else partition.topic_id
    return FoundPartition(topic, index, topic_id, partition.leader_epochs.latest_epoch)


def _next_producer_id(partitions: Iterable[PartitionLog]) -> int:
    largest = (max(partition.producers.producers, default=-1) for partition in partitions)
    return max(largest, default=-1) + 1


def _read_image(disk: Disk, log_dirs: Sequence[str]) -> MetadataImage | None:
    """Returns what a KRaft broker's metadata log says, if there is one."""
    for log_dir in log_dirs:
        directory = f"{log_dir}/{CLUSTER_METADATA_TOPIC}-0"
        if disk.is_dir(directory):
            # The schemas of its records take 5 ms to set up, once in the life of a directory.
            from moldau.controller.kraft import metadata_values, replay

            return replay(
                value
                for name in _metadata_files(disk.listdir(directory))
                for value in metadata_values(disk.read(f"{directory}/{name}"))
            )
    return None


def _metadata_files(names: Sequence[str]) -> list[str]:
    """Returns the newest checkpoint, then all segments: names sort by offset."""
    checkpoints = sorted(name for name in names if name.endswith(CHECKPOINT_SUFFIX))
    segments = sorted(name for name in names if name.endswith(SEGMENT_SUFFIX))
    return checkpoints[-1:] + segments

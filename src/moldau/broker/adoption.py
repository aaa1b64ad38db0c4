"""Serving a data directory that Apache Kafka wrote: what is on disk becomes topics of this cluster.

Due once, when the store does not know its cluster yet. Afterwards the store is the truth.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from moldau.config.values.topic import TopicConfig
from moldau.controller.adoption import FoundPartition, adopt, plan_adoption
from moldau.controller.kraft_image import MetadataImage
from moldau.coordination.store import CoordinationStore
from moldau.log import LogManager, PartitionLog
from moldau.log.files.names import CLUSTER_METADATA_TOPIC
from moldau.machine import Disk, Machine
from moldau.model import NO_TOPIC_ID

log = logging.getLogger(__name__)

CHECKPOINT_SUFFIX = ".checkpoint"
SEGMENT_SUFFIX = ".log"


async def adopt_directories(
    store: CoordinationStore,
    machine: Machine,
    log_dirs: Sequence[str],
    logs: LogManager,
    node_id: int,
) -> None:
    """Make topics of the partitions that are already there."""
    if not logs.logs:
        return
    image = await machine.threads.run(_read_image, machine.disk, log_dirs)
    plan = plan_adoption(
        [_found(partition) for partition in logs.logs.values()],
        node_id,
        machine.new_uuid,
        image=image,
        next_producer_id=_next_producer_id(logs.logs.values()),
    )
    for warning in plan.warnings:
        log.warning("%s", warning)
    await adopt(store, plan)
    log.info("adopted %d topics from %s", len(plan.topics), ", ".join(log_dirs))


def while_unknown(topic_config: Callable[[str], TopicConfig]) -> Callable[[str], TopicConfig]:
    """Settings to open logs with before anybody knows whose they are.

    Any of them may have been compacted, so a gap in the offsets must not be taken for lost data.
    """
    policy = frozenset({"compact", "delete"})
    return lambda topic: replace(topic_config(topic), cleanup_policy=policy)


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

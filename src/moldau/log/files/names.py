"""Names of files and directories in a log directory. They are part of the file format."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from moldau.model import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

DELETE_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"
_MARKED_DIR_SUFFIXES: Final = (DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, FUTURE_DIR_SUFFIX)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
REPLACED_LOGS: Final = "replaced-logs.json"
"""Not Kafka's: which logs of other directories were replaced by moves that are not finished."""
TOPIC_CONFIG: Final = "topic.config"
"""Not Kafka's: a copy of a topic's settings, in a partition's directory."""
BROKER_LIFE: Final = "broker-life.json"
"""Not Kafka's: since when nothing in a log directory was lost."""
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""A combined Apache Kafka node keeps its Raft log beside the partitions; it is not a topic."""

_NAME_MAX: Final = 255
_OFFSET_FILE: Final = re.compile(
    r"^(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)?$"
)


def file_name(base_offset: int, suffix: str) -> str:
    """``00000000000000000042.log``."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str, str] | None:
    """Base offset, suffix and mark (``.deleted``, ``.cleaned``, ``.swap`` or nothing)."""
    match = _OFFSET_FILE.match(name)
    if match is None:
        return None
    return int(match[1]), match[2], match[3] or ""


def partition_dir_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def marked_dir_name(topic_partition: TopicPartition, unique: UUID, suffix: str) -> str:
    """Returns a name for a directory that is going away; the topic is cut to fit a file name."""
    tail = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    return topic_partition.topic[: _NAME_MAX - len(tail)] + tail


def future_dir_name(topic_partition: TopicPartition, unique: UUID) -> str | None:
    """Returns a name for a copy that will take a log's place; None if it would be too long.

    The name has to tell the partition after a restart, so the topic cannot be cut.
    """
    topic, number = topic_partition
    name = f"{topic}-{number}.{unique.hex}{FUTURE_DIR_SUFFIX}"
    return None if len(name) > _NAME_MAX else name


def parse_dir_name(name: str) -> tuple[TopicPartition, str] | None:
    """Partition and mark (``-delete``, ``-stray``, ``-future`` or nothing) of a directory."""
    mark = ""
    for suffix in _MARKED_DIR_SUFFIXES:
        if name.endswith(suffix):
            name, dot, _ = name.rpartition(".")
            if not dot:
                return None
            mark = suffix
            break
    topic, _, number = name.rpartition("-")
    if not topic or not number.isascii() or not number.isdigit():
        return None
    return TopicPartition(topic, int(number)), mark

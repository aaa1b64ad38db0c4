"""Log directories as DescribeLogDirs shows them."""

from __future__ import annotations

from typing import NamedTuple

from moldau.model import TopicPartition


class ReplicaInfo(NamedTuple):
    topic_partition: TopicPartition
    size: int
    log_end_offset: int
    future_lag: int | None = None
    """For the copy of a replica that is being moved: how far it is behind the original."""


class LogDirInfo(NamedTuple):
    """A log directory as DescribeLogDirs shows it."""

    path: str
    failure: str | None
    replicas: list[ReplicaInfo]
    cordoned: bool = False
    """Whether it gets no new partitions."""

"""Small value types that every layer speaks: partitions, nodes, topic ids."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

NO_TOPIC_ID = UUID(int=0)
"""Kafka's zero UUID: "this message carries a name, not an id"."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker as clients see it: where it listens and in which rack it stands."""

    id: int
    host: str
    port: int
    rack: str | None = None

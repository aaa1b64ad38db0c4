"""Small value types that every layer speaks: partitions, nodes, principals, topic ids and more."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

NO_TOPIC_ID = UUID(int=0)
"""Kafka's zero UUID: "this message carries a name, not an id"."""

MAX_TOPIC_NAME_LENGTH: Final = 249
LEGAL_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]+")


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


class Principal(NamedTuple):
    """Who is at the other end of a connection."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Whoever did not say who they are."""


class ElectionType(IntEnum):
    """Which leaders are wanted, numbered as ElectLeaders sends it."""

    PREFERRED = 0
    """Leadership to the first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Leadership to any living replica of a partition that has no leader; may lose records."""


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition: the next offset to read, with a note of its own."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    """The epoch of the last record read; lets a later reader find out about lost records."""


class OffsetAndTimestamp(NamedTuple):
    offset: int
    """-1 when no record is that young."""
    timestamp: int
    leader_epoch: int

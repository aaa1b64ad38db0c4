"""What administration of groups is asked with and answers: plain values, free of versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from moldau.model import Node, OffsetAndMetadata, TopicPartition

CLASSIC = "classic"
CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    type: str
    """``classic`` or ``consumer``; empty from brokers that do not say (before 3.8)."""
    state: str
    protocol_type: str
    """``consumer`` for consumers, ``connect`` …, empty for groups that only hold offsets."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    """What it subscribes to, as far as the group tells."""
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    """Where the assignment is heading; only groups of type ``consumer`` have it."""
    epoch: int | None = None
    topic_regex: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: str
    type: str
    state: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    """The group epoch of groups of type ``consumer``; classic groups keep theirs to themselves."""


class MemberToRemove(NamedTuple):
    """A member by its id, or a static one by its instance id."""

    member_id: str = ""
    instance_id: str | None = None


class PartitionLag(NamedTuple):
    """How far a group, or any reader, is behind in one partition."""

    committed: OffsetAndMetadata | None
    """None where the group has committed nothing."""
    end_offset: int | None
    """None where the partition is gone or has no leader."""
    behind_ms: int | None
    """How long the oldest record not consumed yet has been waiting; 0 when there is none."""

    @property
    def records(self) -> int | None:
        if self.committed is None or self.end_offset is None:
            return None
        return self.end_offset - self.committed.offset

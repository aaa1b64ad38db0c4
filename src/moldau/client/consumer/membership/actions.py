"""What a membership machine wants done. The shell does it and tells the machine how it went.

Answers to requests of an earlier ``attempt`` than the machine's current one are ignored: whoever
asked has left, been fenced, or begun anew meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from moldau.client.consumer.assignors.base import MemberSubscription
from moldau.model import TopicPartition


class CallbackKind(Enum):
    """What happens to partitions, and so which method of the rebalance listener is called."""

    REVOKED = "revoked"
    """They go to somebody else; offsets can still be committed."""
    ASSIGNED = "assigned"
    LOST = "lost"
    """They may be somebody else's already."""


@dataclass(frozen=True, slots=True)
class CallBack:
    """To be done in the user's ``poll``."""

    kind: CallbackKind
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Join:
    attempt: int
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RunAssignor:
    """We lead the group: divide the partitions of these topics."""

    attempt: int
    assignor: str
    members: Mapping[str, MemberSubscription]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for member in self.members.values() for topic in member.topics)


@dataclass(frozen=True, slots=True)
class Sync:
    attempt: int
    member_id: str
    generation: int
    protocol: str
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of a classic member."""

    attempt: int
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConsumerBeat:
    """A heartbeat of the consumer protocol; None stands for what has not changed."""

    attempt: int
    member_id: str
    epoch: int
    topics: frozenset[str] | None = None
    pattern: str | None = None
    owned: Mapping[UUID, tuple[int, ...]] | None = None
    full: bool = False
    """Everything about the member goes along: the answer will have its assignment."""

    @property
    def leaving(self) -> bool:
        return self.epoch < 0


Action = CallBack | Join | RunAssignor | Sync | Beat | Leave | ConsumerBeat


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    generation: int
    protocol: str
    leader: str
    member_id: str
    members: Mapping[str, MemberSubscription]
    """Only the leader gets to know them."""
    skip_assignment: bool = False
    """The leader is a static one that came back: the group keeps what it has (KIP-814)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits: what the coordinator compares with the group's state."""

    member_id: str
    generation: int
    """The generation of a classic group, the member's epoch in the consumer protocol."""

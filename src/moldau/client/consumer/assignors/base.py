"""What an assignor is given and what it returns: pure values, no cluster.

The members of a classic group agree on an assignor by name; the leader runs it for all of them. So
each one has to give the same answer in every client of the group: the names and the results here
are those of Kafka's Java client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from moldau.model import TopicPartition

NO_GENERATION = -1

Racks = frozenset[str]
Layout = Mapping[str, Sequence[Racks]]
"""By topic, for each of its partitions in order, the racks that have a replica of it."""

Plan = dict[str, list[TopicPartition]]
"""What each member gets, by member id."""


class RebalanceProtocol(Enum):
    """How members give partitions away (KIP-429)."""

    EAGER = "eager"
    """Everything before joining: simple, and everybody stops for the time of the rebalance."""

    COOPERATIVE = "cooperative"
    """Only what goes to another member, in a rebalance of its own; the rest goes on meanwhile."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What one member tells the group's leader about itself."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


class Assignor(ABC):
    """Divides partitions among members. Subclass it for an assignment of your own.

    An instance belongs to one consumer and may remember what ``on_assignment`` told it.
    """

    name: str
    """How the members of a group call it; all of them must have one in common."""

    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    """The ways of rebalancing that it supports; the one that all configured assignors share and
    that disturbs least is taken."""

    @abstractmethod
    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        """Who gets what. Topics that do not exist are not in the layout."""

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:  # noqa: ARG002
        """Bytes for the leader's assignor that go with this member's subscription."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """This member got these partitions."""
        del partitions, generation


def sorted_members(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids in the order of Kafka's assignors: static members by instance id come first."""

    def order(member: str) -> tuple[bool, str]:
        instance = members[member].instance_id
        return instance is None, member if instance is None else instance

    return sorted(members, key=order)


def subscribers(members: Mapping[str, MemberSubscription], topic: str) -> list[str]:
    """The members that want a topic, in order."""
    return [member for member in sorted_members(members) if topic in members[member].topics]


def partitions_of(topic: str, layout: Layout) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(len(layout[topic]))]

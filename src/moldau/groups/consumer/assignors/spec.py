"""What an assignor is told about a group, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id. Never changed once built; topics without partitions are left out."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it wants, and what the target assignment gives it so far."""

    subscribed: frozenset[UUID]
    """The ids of the topics it subscribes to that exist."""
    assigned: Partitions
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]
    """The partition counts of all topics that any member subscribes to."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        specs = iter(self.members.values())
        first = next(specs, None)
        return first is None or all(spec.subscribed == first.subscribed for spec in specs)


class Assignor(Protocol):
    def assign(self, group: GroupSpec) -> dict[str, dict[UUID, frozenset[int]]]:
        """Give every partition of every subscribed topic to one of its subscribers."""


def freeze(shares: Mapping[str, Mapping[UUID, set[int]]]) -> dict[str, dict[UUID, frozenset[int]]]:
    """An assignment under construction in its final form."""
    return {
        member_id: {
            topic_id: frozenset(partitions) for topic_id, partitions in share.items() if partitions
        }
        for member_id, share in shares.items()
    }

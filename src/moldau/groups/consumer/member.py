"""A member of a group under the consumer protocol.

Members never change: a handler builds the next one, writes records that say how it differs, and
replaying those records puts it in the place of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from moldau.groups.consumer.assignors import Partitions
from moldau.groups.memory import names_size, protocols_size, topics_size
from moldau.wire.stored.group_records import ClassicMemberMetadata

LEAVE_EPOCH = -1
"""The member epoch with which a member leaves for good."""
STATIC_LEAVE_EPOCH = -2
"""The member epoch with which a static member leaves and means to come back; also the epoch that
it has until then."""

Ownership = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was assigned. An offset commit
with an older member epoch is still good for partitions that the member had at that epoch."""


class MemberState(IntEnum):
    """How far a member has come on its way to its target assignment."""

    STABLE = 0
    """It has what the target assignment of its epoch gives it. A newer target makes it move."""
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up and has not said that it did. It keeps its epoch, and its
    rebalance timeout runs, until a heartbeat lists owned partitions without them."""
    UNRELEASED_PARTITIONS = 2
    """It has the epoch of the target but waits for partitions that others still hold. Every
    heartbeat gives it those that became free."""
    UNKNOWN = 127
    """Written by a newer coordinator. It is fenced, and begins again with nothing."""

    @classmethod
    def read(cls, value: int) -> MemberState:
        try:
            return cls(value)
        except ValueError:
            return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Set for a member that speaks the classic protocol in a consumer group."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Ownership = field(default_factory=dict)
    pending_revocation: Ownership = field(default_factory=dict)

    @property
    def footprint(self) -> int:
        """What the member takes, in bytes, without its partitions, of which there are so many."""
        return (
            names_size(self.member_id, self.instance_id, self.client_id, self.subscribed_regex)
            + topics_size(self.subscribed_names)
            + self.metadata_size
        )

    @property
    def metadata_size(self) -> int:
        """What the metadata of a member takes that speaks the classic protocol."""
        protocols = self.classic.supported_protocols if self.classic is not None else ()
        return protocols_size([(protocol.name, protocol.metadata) for protocol in protocols])

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved(
        self,
        state: MemberState,
        epoch: int,
        assigned: Ownership,
        pending_revocation: Ownership | None = None,
    ) -> Member:
        """The member one step further in its reconciliation."""
        return replace(
            self,
            state=state,
            previous_epoch=self.epoch,
            epoch=epoch,
            assigned=assigned,
            pending_revocation=pending_revocation or {},
        )

    def holds_subset(self, owned: Partitions) -> bool:
        """Whether everything in ``owned`` is assigned to the member."""
        return all(
            partitions <= self.assigned.get(topic_id, {}).keys()
            for topic_id, partitions in owned.items()
        )

    @property
    def held(self) -> dict[UUID, frozenset[int]]:
        """Everything that the member may be reading: what it has, and what it must give up."""
        return {
            topic_id: frozenset(
                self.assigned.get(topic_id, {}).keys()
                | self.pending_revocation.get(topic_id, {}).keys()
            )
            for topic_id in sorted(self.assigned.keys() | self.pending_revocation.keys())
        }

    def same_subscription(self, other: Member) -> bool:
        return self.subscribed_names == other.subscribed_names and (
            self.subscribed_regex or None
        ) == (other.subscribed_regex or None)

    def same_metadata(self, other: Member) -> bool:
        """Whether both have the same ConsumerGroupMemberMetadata record."""
        return (
            self.same_subscription(other)
            and self.instance_id == other.instance_id
            and self.rack_id == other.rack_id
            and self.client_id == other.client_id
            and self.client_host == other.client_host
            and self.subscribed_regex == other.subscribed_regex
            and self.rebalance_timeout_ms == other.rebalance_timeout_ms
            and self.server_assignor == other.server_assignor
            and self.classic == other.classic
        )

    def same_assignment(self, other: Member) -> bool:
        """Whether both have the same ConsumerGroupCurrentMemberAssignment record."""
        return (
            self.epoch == other.epoch
            and self.previous_epoch == other.previous_epoch
            and self.state is other.state
            and self.assigned == other.assigned
            and self.pending_revocation == other.pending_revocation
        )

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch at which a partition was assigned, if the member has or gives it up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        if epoch is None:
            epoch = self.pending_revocation.get(topic_id, {}).get(partition)
        return epoch

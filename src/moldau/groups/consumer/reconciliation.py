"""Reconciliation: how one member gets from what it has to what the target assignment gives it.

A member first gives up what it must (and keeps its epoch meanwhile), then takes the target's epoch
and gets what is free of its target; what others still hold follows when they have given it up. So
a partition has one owner at any time, and members move on independently of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.assignors import Partitions
from moldau.groups.consumer.member import Member, MemberState, Ownership


@dataclass(frozen=True, slots=True)
class Target:
    epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What a step depends on besides the member itself."""

    target: Target
    subscribed: AbstractSet[UUID]
    """The ids of the topics that the member subscribes to. Whatever else the target says, it is
    never given a topic that it does not want."""
    is_held: Callable[[UUID, int], bool]
    """Whether some member holds a partition, or has not given it up yet."""
    owned: Partitions | None
    """What the member says that it holds; None when its heartbeat did not say."""
    subscription_changed: bool = False

    def step(self, member: Member) -> Member:
        """The next state of the member; the member itself when it cannot move on."""
        if member.state is MemberState.STABLE and member.epoch == self.target.epoch:
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(
            member.pending_revocation
        ):
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNKNOWN and self.owned != {}:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The state of the member is not known to this coordinator; it has to give up its "
                "partitions and join again.",
            )
        return self._towards_target(member)

    def _still_owns(self, ownership: Ownership) -> bool:
        owned = self.owned
        if owned is None:
            return True
        return any(
            not owned.get(topic_id, frozenset()).isdisjoint(partitions)
            for topic_id, partitions in ownership.items()
        )

    def _drop_unsubscribed(self, member: Member) -> Member:
        """Take topics away that the member no longer wants, ahead of the next target."""
        dropped = {
            topic_id: partitions
            for topic_id, partitions in member.assigned.items()
            if topic_id not in self.subscribed
        }
        if not dropped:
            return member
        kept = {
            topic_id: partitions
            for topic_id, partitions in member.assigned.items()
            if topic_id in self.subscribed
        }
        pending = {topic_id: dict(p) for topic_id, p in member.pending_revocation.items()}
        for topic_id, partitions in dropped.items():
            pending.setdefault(topic_id, {}).update(partitions)
        if self._still_owns(pending):
            return member.moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, pending)
        return member.moved(member.state, member.epoch, kept, member.pending_revocation)

    def _towards_target(self, member: Member) -> Member:
        assigned: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        added: dict[UUID, list[int]] = {}
        waiting = False
        for topic_id in sorted(self.target.partitions.keys() | member.assigned.keys()):
            target = self.target.partitions.get(topic_id, frozenset())
            if topic_id not in self.subscribed:
                target = frozenset()
            current = member.assigned.get(topic_id, {})
            given_up = member.pending_revocation.get(topic_id, {})
            for partition, epoch in current.items():
                where = assigned if partition in target else revoked
                where.setdefault(topic_id, {})[partition] = epoch
            for partition in sorted(target - current.keys()):
                if partition not in given_up and self.is_held(topic_id, partition):
                    waiting = True
                else:
                    added.setdefault(topic_id, []).append(partition)

        if revoked and self._still_owns(revoked):
            return member.moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoked)
        for topic_id, new in added.items():
            topic = assigned.setdefault(topic_id, {})
            for partition in new:
                topic[partition] = self.target.epoch
        state = MemberState.UNRELEASED_PARTITIONS if waiting else MemberState.STABLE
        return member.moved(state, self.target.epoch, assigned)

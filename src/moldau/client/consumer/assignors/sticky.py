"""``sticky`` and ``cooperative-sticky``: balanced first, then as little movement as possible.

Balanced means: no member could take a partition from one that has two more than it. Both assignors
compute the same; they differ in where they learn what members own, and the cooperative one lets a
partition that changes hands skip one rebalance, in which its owner gives it up (KIP-429).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from moldau.client.consumer.assignors.base import (
    NO_GENERATION,
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    RebalanceProtocol,
    partitions_of,
    sorted_members,
)
from moldau.client.consumer.assignors.user_data import CooperativeStickyUserData, StickyUserData
from moldau.model import TopicPartition

Claims = Mapping[str, tuple[int, Iterable[TopicPartition]]]
"""By member: the generation it last took part in, and what it owned then."""


class StickyAssignor(Assignor):
    """Members tell what they owned in their user data, in the format of Kafka's assignor."""

    name = "sticky"

    def __init__(self) -> None:
        self._generation = NO_GENERATION
        self._owned: tuple[TopicPartition, ...] = ()

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._owned, self._generation = tuple(partitions), generation

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:  # noqa: ARG002
        # Not what is owned now, which is nothing: an eager member has given up everything.
        if not self._owned and self._generation == NO_GENERATION:
            return None
        return StickyUserData.of(self._owned, self._generation).encode()

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        return balance(layout, members, {name: _claim(member) for name, member in members.items()})


class CooperativeStickyAssignor(Assignor):
    """Members tell what they own in their subscription."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        del partitions
        self._generation = generation

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:  # noqa: ARG002
        return CooperativeStickyUserData(self._generation).encode()

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        claims = {
            name: (_cooperative_generation(member), member.owned)
            for name, member in members.items()
        }
        plan = balance(layout, members, claims)
        newest_last = sorted(claims, key=lambda name: claims[name][0])
        owner = {partition: name for name in newest_last for partition in members[name].owned}
        return {
            name: [partition for partition in mine if owner.get(partition, name) == name]
            for name, mine in plan.items()
        }


def _claim(member: MemberSubscription) -> tuple[int, Iterable[TopicPartition]]:
    told = StickyUserData.decode(member.user_data)
    return told.generation, told.partitions


def _cooperative_generation(member: MemberSubscription) -> int:
    """Members from before version 2 of the protocol tell their generation in their user data."""
    if member.generation != NO_GENERATION:
        return member.generation
    return CooperativeStickyUserData.decode(member.user_data).generation


def balance(layout: Layout, members: Mapping[str, MemberSubscription], claims: Claims) -> Plan:
    """A balanced plan that leaves partitions where they are as far as that is possible."""
    wanted = {
        name: frozenset(topic for topic in member.topics if topic in layout)
        for name, member in members.items()
    }
    plan = _kept(layout, wanted, claims)
    if len(set(wanted.values())) <= 1:
        _trim_to_quota(layout, wanted, plan)
    assigned = {partition for mine in plan.values() for partition in mine}
    order = {name: index for index, name in enumerate(sorted_members(members))}
    users: dict[str, list[str]] = defaultdict(list)
    for name in order:
        for topic in wanted[name]:
            users[topic].append(name)
    for topic in sorted(users, key=lambda topic: (len(users[topic]), topic)):
        for partition in partitions_of(topic, layout):
            if partition not in assigned:
                least = min(users[topic], key=lambda name: (len(plan[name]), order[name]))
                plan[least].append(partition)
    _even_out(plan, users)
    return plan


def _kept(layout: Layout, wanted: Mapping[str, frozenset[str]], claims: Claims) -> Plan:
    """Who keeps what: the newest generation wins, and of two equals nobody."""
    holder: dict[TopicPartition, tuple[int, str | None]] = {}
    for name, (generation, owned) in claims.items():
        for partition in owned:
            if partition.topic not in wanted[name]:
                continue
            if partition.partition >= len(layout[partition.topic]):
                continue
            rival = holder.get(partition)
            if rival is None or rival[0] < generation:
                holder[partition] = (generation, name)
            elif rival[0] == generation and rival[1] != name:
                holder[partition] = (generation, None)
    plan: Plan = {name: [] for name in wanted}
    for partition in sorted(holder):
        name_or_none = holder[partition][1]
        if name_or_none is not None:
            plan[name_or_none].append(partition)
    return plan


def _trim_to_quota(layout: Layout, wanted: Mapping[str, frozenset[str]], plan: Plan) -> None:
    """With equal subscriptions every share is known beforehand: what is above it is up for grabs.

    Evening out alone would come to the same balance, one move at a time.
    """
    topics = next(iter(wanted.values()), frozenset())
    total = sum(len(layout[topic]) for topic in topics)
    if not plan:
        return
    least, extra = divmod(total, len(plan))
    for name in sorted(plan, key=lambda name: (-len(plan[name]), name)):
        share = least
        if extra > 0 and len(plan[name]) > least:
            share, extra = least + 1, extra - 1
        del plan[name][share:]


def _even_out(plan: Plan, users: Mapping[str, list[str]]) -> None:
    """Moves partitions from members with many to such with at least two fewer, while it helps."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(plan, key=lambda name: -len(plan[name])):
            for partition in sorted(plan[giver], reverse=True):
                taker = min(users[partition.topic], key=lambda name: len(plan[name]))
                if len(plan[taker]) + 2 <= len(plan[giver]):
                    plan[giver].remove(partition)
                    plan[taker].append(partition)
                    moved = True

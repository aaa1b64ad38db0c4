"""``range``: each topic by itself, a contiguous run of partitions for each of its subscribers.

Topics with equally many partitions and the same subscribers are divided the same way, so that a
member gets the same partition numbers of all of them (co-partitioning). Where members and replicas
have racks, partitions go to members in the rack of a replica as far as balance and co-partitioning
allow (KIP-881).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from moldau.client.consumer.assignors.base import (
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    partitions_of,
    subscribers,
)
from moldau.model import TopicPartition


class RangeAssignor(Assignor):
    name = "range"

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        topics = [_Topic(topic, layout, members) for topic in layout if layout[topic]]
        rack_aware = any(topic.needs_racks for topic in topics)
        if rack_aware:
            _match_racks(topics, plan)
        for topic in topics:
            topic.hand_out(plan, lambda _member, _partition: True)
        if rack_aware:
            for partitions in plan.values():
                partitions.sort()
        return plan


class _Topic:
    """One topic while it is being handed out."""

    def __init__(
        self, topic: str, layout: Layout, members: Mapping[str, MemberSubscription]
    ) -> None:
        self.name = topic
        self.consumers = subscribers(members, topic)
        self.racks = layout[topic]
        self._left = partitions_of(topic, layout)
        self._given = dict.fromkeys(self.consumers, 0)
        count = len(self.consumers)
        self._each, self._extra = divmod(len(self._left), count) if count else (0, 0)
        self._rack_of = {member: members[member].rack for member in self.consumers}
        self.needs_racks = self._racks_differ()

    @property
    def size(self) -> int:
        return len(self.racks)

    def _racks_differ(self) -> bool:
        """Returns whether some partition can be read nearby by some members only."""
        consumer_racks = {rack for rack in self._rack_of.values() if rack}
        all_racks = frozenset().union(*self.racks)
        return not consumer_racks.isdisjoint(all_racks) and any(r != all_racks for r in self.racks)

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        rack = self._rack_of[member]
        return not rack or rack in self.racks[partition.partition]

    def room(self, member: str) -> int:
        """How many more partitions a member may get without spoiling the balance."""
        return max(0, self._each + (1 if self._extra > 0 else 0) - self._given[member])

    def give(self, member: str, partitions: Iterable[TopicPartition], plan: Plan) -> None:
        share = list(partitions)
        plan[member] += share
        self._given[member] += len(share)
        if self._given[member] > self._each:
            self._extra -= 1
        gone = set(share)
        self._left = [partition for partition in self._left if partition not in gone]

    def hand_out(self, plan: Plan, may_have: Callable[[str, TopicPartition], bool]) -> None:
        for member in self.consumers:
            fitting = [partition for partition in self._left if may_have(member, partition)]
            mine = fitting[: self.room(member)]
            if mine:
                self.give(member, mine, plan)


def _match_racks(topics: list[_Topic], plan: Plan) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        alike[tuple(topic.consumers), topic.size].append(topic)
    for (consumers, size), group in alike.items():
        if len(group) > 1:
            _match_co_partitioned(list(consumers), size, group, plan)
        elif group[0].needs_racks:
            group[0].hand_out(plan, group[0].is_near)


def _match_co_partitioned(
    consumers: list[str], size: int, topics: list[_Topic], plan: Plan
) -> None:
    """Partition by partition, all topics of the group together or not at all."""
    for number in range(size):
        for member in consumers:
            if all(
                topic.is_near(member, TopicPartition(topic.name, number)) and topic.room(member)
                for topic in topics
            ):
                for topic in topics:
                    topic.give(member, [TopicPartition(topic.name, number)], plan)
                break

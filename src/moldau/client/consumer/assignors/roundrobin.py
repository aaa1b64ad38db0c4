"""``roundrobin``: all partitions of all topics in order, to one member after the other."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.consumer.assignors.base import (
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    partitions_of,
    sorted_members,
)


class RoundRobinAssignor(Assignor):
    name = "roundrobin"

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        circle = sorted_members(members)
        wanted = {topic for member in members.values() for topic in member.topics}
        turn = 0
        for topic in sorted(wanted & layout.keys()):
            for partition in partitions_of(topic, layout):
                while topic not in members[circle[turn]].topics:
                    turn = (turn + 1) % len(circle)
                plan[circle[turn]].append(partition)
                turn = (turn + 1) % len(circle)
        return plan

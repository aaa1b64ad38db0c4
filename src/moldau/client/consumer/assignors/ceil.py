"""``ceil``: the rule of the old high-level consumer: N = ceil(partitions / consumers) in a row.

Each subscriber but the last ones gets N partitions, so with six partitions and four consumers the
shares are 2, 2, 2, 0. New groups do better with ``range``, which gives 2, 2, 1, 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.consumer.assignors.base import (
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    partitions_of,
    subscribers,
)


class CeilAssignor(Assignor):
    name = "ceil"

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        for topic in layout:
            consumers = subscribers(members, topic)
            if not consumers:
                continue
            partitions = partitions_of(topic, layout)
            each = -(-len(partitions) // len(consumers))
            for index, member in enumerate(consumers):
                plan[member] += partitions[index * each : (index + 1) * each]
        return plan

"""``ceil``: the rule of the old high-level consumer: N = ceil(partitions / consumers) in a row.

Each subscriber but the last ones gets N partitions, so with six partitions and four consumers the
shares are 2, 2, 2, 0. New groups do better with ``range``, which gives 2, 2, 1, 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from moldau.client.consumer.assignors.base import (
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    partitions_of,
    subscribers,
)

T = TypeVar("T")


def ceil_shares(partitions: Sequence[T], consumers: Sequence[str]) -> dict[str, Sequence[T]]:
    """The partitions of one topic for each of its consumers; both in order."""
    if not consumers:
        return {}
    each = -(-len(partitions) // len(consumers))
    return {
        consumer: partitions[index * each : (index + 1) * each]
        for index, consumer in enumerate(consumers)
    }


class CeilAssignor(Assignor):
    name = "ceil"

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        for topic in layout:
            consumers = subscribers(members, topic)
            for member, share in ceil_shares(partitions_of(topic, layout), consumers).items():
                plan[member] += share
        return plan

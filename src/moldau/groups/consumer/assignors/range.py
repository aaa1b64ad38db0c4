"""The range assignor: each topic is cut into contiguous ranges, one per subscriber.

Members are taken in a fixed order, so members with the same subscriptions get the same range of
every topic with the same number of partitions: records that share a key across co-partitioned
topics meet in one member. Static members come first, in the order of their instance ids, so that a
restart under a new member id does not move ranges.
"""

from __future__ import annotations

from uuid import UUID

from moldau.groups.consumer.assignors.spec import GroupSpec


class RangeAssignor:
    def assign(self, group: GroupSpec) -> dict[str, dict[UUID, frozenset[int]]]:
        shares: dict[str, dict[UUID, frozenset[int]]] = {
            member_id: {} for member_id in group.members
        }
        for topic_id, count in group.partitions.items():
            subscribers = _in_order(group, topic_id)
            if not subscribers:
                continue
            quota, extra = divmod(count, len(subscribers))
            start = 0
            for position, member_id in enumerate(subscribers):
                end = start + quota + (position < extra)
                if start < end:
                    shares[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return shares


def _in_order(group: GroupSpec, topic_id: UUID) -> list[str]:
    members = group.members
    return sorted(
        (member_id for member_id, spec in members.items() if topic_id in spec.subscribed),
        key=lambda member_id: (
            members[member_id].instance_id is None,
            members[member_id].instance_id or member_id,
        ),
    )

"""The uniform assignor: equal shares, and as few moves as possible.

Members keep what they have up to their fair share; the rest is handed to those that have less.
When all members subscribe to the same topics, the shares differ by at most one partition, and
nothing moves that need not. Otherwise shares are evened out topic by topic: afterwards no
partition could move to another subscriber of its topic and make two shares more equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from uuid import UUID

from moldau.groups.consumer.assignors.spec import GroupSpec, freeze

_Shares = dict[str, dict[UUID, set[int]]]
_TopicPartition = tuple[UUID, int]


class UniformAssignor:
    def assign(self, group: GroupSpec) -> dict[str, dict[UUID, frozenset[int]]]:
        if not group.members:
            return {}
        shares, unassigned = _keep(group)
        if group.is_homogeneous:
            _share_equally(shares, unassigned)
        else:
            subscribers = _subscribers(group)
            sizes = {member_id: _size(share) for member_id, share in shares.items()}
            _hand_out(shares, sizes, unassigned, subscribers)
            _even_out(shares, sizes, subscribers)
        return freeze(shares)


def _keep(group: GroupSpec) -> tuple[_Shares, list[_TopicPartition]]:
    """What members may keep of what they have, and the partitions nobody has."""
    subscribed: set[UUID] = set().union(*(spec.subscribed for spec in group.members.values()))
    wanted = {
        topic_id: count for topic_id, count in group.partitions.items() if topic_id in subscribed
    }
    free = {topic_id: set(range(count)) for topic_id, count in wanted.items()}
    shares: _Shares = {}
    for member_id in sorted(group.members):
        spec = group.members[member_id]
        share = shares[member_id] = {}
        for topic_id, partitions in spec.assigned.items():
            if topic_id in spec.subscribed and topic_id in free:
                kept = free[topic_id] & partitions
                free[topic_id] -= kept
                if kept:
                    share[topic_id] = kept
    unassigned = [
        (topic_id, partition) for topic_id in sorted(free) for partition in sorted(free[topic_id])
    ]
    return shares, unassigned


def _share_equally(shares: _Shares, unassigned: list[_TopicPartition]) -> None:
    sizes = {member_id: _size(share) for member_id, share in shares.items()}
    total = sum(sizes.values()) + len(unassigned)
    quota, extra = divmod(total, len(shares))
    # Those that have most keep the one more that some members get: it moves nothing.
    by_size = sorted(shares, key=lambda member_id: -sizes[member_id])
    quotas = {member_id: quota + (position < extra) for position, member_id in enumerate(by_size)}
    for member_id, allowed in quotas.items():
        surplus = sizes[member_id] - allowed
        if surplus > 0:
            unassigned += _take(shares[member_id], surplus)
            sizes[member_id] = allowed
    remaining = iter(unassigned)
    for member_id in shares:
        for _ in range(quotas[member_id] - sizes[member_id]):
            topic_id, partition = next(remaining)
            shares[member_id].setdefault(topic_id, set()).add(partition)


def _take(share: dict[UUID, set[int]], count: int) -> list[_TopicPartition]:
    """Take partitions away, from the topics of which the member has most."""
    removed: list[_TopicPartition] = []
    heap = [(-len(partitions), topic_id) for topic_id, partitions in share.items()]
    heapify(heap)
    while len(removed) < count:
        size, topic_id = heappop(heap)
        partition = max(share[topic_id])
        share[topic_id].remove(partition)
        removed.append((topic_id, partition))
        if size + 1 < 0:
            heappush(heap, (size + 1, topic_id))
    return removed


def _hand_out(
    shares: _Shares,
    sizes: dict[str, int],
    unassigned: Iterable[_TopicPartition],
    subscribers: dict[UUID, list[str]],
) -> None:
    """Give each free partition to the subscriber with least, topics with few takers first."""
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in unassigned:
        by_topic.setdefault(topic_id, []).append(partition)
    for topic_id in sorted(by_topic, key=lambda topic_id: len(subscribers[topic_id])):
        heap = [(sizes[member_id], member_id) for member_id in subscribers[topic_id]]
        heapify(heap)
        for partition in by_topic[topic_id]:
            size, member_id = heappop(heap)
            shares[member_id].setdefault(topic_id, set()).add(partition)
            sizes[member_id] = size + 1
            heappush(heap, (size + 1, member_id))


def _even_out(shares: _Shares, sizes: dict[str, int], subscribers: dict[UUID, list[str]]) -> None:
    """Move partitions within each topic until no move makes two shares more equal.

    Every move lowers the sum of the squares of the sizes, so this ends.
    """
    moved = True
    while moved:
        moved = False
        for topic_id, member_ids in subscribers.items():
            moved = _even_out_topic(topic_id, member_ids, shares, sizes) or moved


def _even_out_topic(
    topic_id: UUID, member_ids: list[str], shares: _Shares, sizes: dict[str, int]
) -> bool:
    moved = False
    while True:
        owners = [member_id for member_id in member_ids if shares[member_id].get(topic_id)]
        if not owners:
            return moved
        most = max(owners, key=sizes.__getitem__)
        least = min(member_ids, key=sizes.__getitem__)
        if sizes[most] - sizes[least] < 2:
            return moved
        partition = max(shares[most][topic_id])
        shares[most][topic_id].remove(partition)
        shares[least].setdefault(topic_id, set()).add(partition)
        sizes[most] -= 1
        sizes[least] += 1
        moved = True


def _subscribers(group: GroupSpec) -> dict[UUID, list[str]]:
    subscribers: dict[UUID, list[str]] = {}
    for member_id in sorted(group.members):
        for topic_id in group.members[member_id].subscribed:
            if topic_id in group.partitions:
                subscribers.setdefault(topic_id, []).append(member_id)
    return {topic_id: subscribers[topic_id] for topic_id in sorted(subscribers)}


def _size(share: dict[UUID, set[int]]) -> int:
    return sum(map(len, share.values()))

"""Which brokers hold which partition: Kafka's round robin, rack by rack where racks are known.

First replicas (the preferred leaders) go around the brokers from a random start. The others follow
at a growing shift, so that the partitions of a failed broker spread over all the rest. With racks,
the brokers are taken in rack-alternating order and a replica avoids racks that already have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from moldau.errors import ErrorCode, KafkaError

Assignment = dict[int, tuple[int, ...]]


def assign_replicas(
    brokers: Mapping[int, str | None],
    num_partitions: int,
    replication_factor: int,
    random: Random,
    *,
    first_partition: int = 0,
    start_index: int | None = None,
) -> Assignment:
    """Place partitions on ``brokers`` (id to rack)."""
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Invalid replication factor {replication_factor}: the replication factor must be "
            "positive.",
        )
    if not brokers:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    # A cluster where only some brokers name their rack is placed as if none did.
    rack_aware = len(racks) == len(brokers)
    order = alternate_racks(racks) if rack_aware else sorted(brokers)
    count = len(order)
    start = random.randrange(count) if start_index is None else start_index
    shift = random.randrange(count) if start_index is None else start_index
    result: Assignment = {}
    for partition in range(first_partition, first_partition + num_partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        if replication_factor == 1:
            result[partition] = (order[first],)
        elif rack_aware:
            result[partition] = _across_racks(order, racks, first, shift, replication_factor)
        else:
            followers = (
                order[_follower_index(first, shift, nth, count)]
                for nth in range(replication_factor - 1)
            )
            result[partition] = (order[first], *followers)
    return result


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """Brokers so ordered that neighbours stand in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks, reverse=True):
        by_rack.setdefault(racks[broker], []).append(broker)
    names = sorted(by_rack)
    result: list[int] = []
    while len(result) < len(racks):
        result += [by_rack[name].pop() for name in names if by_rack[name]]
    return result


def _across_racks(
    order: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    num_racks = len(set(racks.values()))
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    nth = 0
    while len(replicas) < replication_factor:
        broker = order[_follower_index(first, shift * num_racks, nth, len(order))]
        nth += 1
        rack_is_free = racks[broker] not in used_racks or len(used_racks) == num_racks
        if rack_is_free and broker not in replicas:
            replicas.append(broker)
            used_racks.add(racks[broker])
    return tuple(replicas)


def _follower_index(first: int, shift: int, nth: int, count: int) -> int:
    return (first + 1 + (shift + nth) % (count - 1)) % count

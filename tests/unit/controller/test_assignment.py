from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.controller.assignment import alternate_racks, assign_replicas
from moldau.errors import ErrorCode, KafkaError


def plain(count: int) -> dict[int, str | None]:
    return dict.fromkeys(range(count))


def test_without_racks_the_replicas_are_where_kafka_puts_them() -> None:
    """The worked example in Kafka's AdminUtils: ten partitions on five brokers."""
    assert assign_replicas(plain(5), 10, 3, Random(), start_index=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_with_racks_the_replicas_are_where_kafka_puts_them() -> None:
    """The rack example in Kafka's AdminUtils, with the shifted seventh partition."""
    racks: dict[int, str | None] = {
        0: "rack1",
        1: "rack3",
        2: "rack3",
        3: "rack2",
        4: "rack2",
        5: "rack1",
    }
    assert alternate_racks({broker: rack for broker, rack in racks.items() if rack}) == [
        0,
        3,
        1,
        5,
        4,
        2,
    ]
    assert assign_replicas(racks, 7, 3, Random(), start_index=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


@given(
    brokers=st.integers(1, 7),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 7),
    racks=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=100, deadline=None)
def test_placement_is_even_and_never_puts_two_replicas_on_one_broker(
    brokers: int, partitions: int, factor: int, racks: int, seed: int
) -> None:
    factor = min(factor, brokers)
    where: dict[int, str | None] = {
        broker: f"r{broker % racks}" if racks else None for broker in range(brokers)
    }
    placed = assign_replicas(where, partitions, factor, Random(seed))
    assert list(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(where)
        if racks:
            used = {where[broker] for broker in replicas}
            assert len(used) == min(factor, len(set(where.values())))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in where) <= 1


def test_leaders_go_on_evenly_when_partitions_are_added() -> None:
    brokers = plain(3)
    first = assign_replicas(brokers, 4, 2, Random(), start_index=1)
    more = assign_replicas(brokers, 5, 2, Random(), first_partition=4, start_index=1)
    assert list(more) == [4, 5, 6, 7, 8]
    leaders = Counter(replicas[0] for replicas in (first | more).values())
    assert set(leaders.values()) == {3}


def test_brokers_of_which_only_some_name_a_rack_are_placed_without_racks() -> None:
    placed = assign_replicas({1: "a", 2: None, 3: "a"}, 6, 2, Random(), start_index=0)
    assert placed == assign_replicas({1: None, 2: None, 3: None}, 6, 2, Random(), start_index=0)


@pytest.mark.parametrize(
    ("brokers", "factor", "message"),
    [
        (1, 3, "replication factor of 3 cannot be reached because only 1 broker(s)"),
        (0, 1, "All brokers are currently fenced"),
        (1, 0, "must be positive"),
    ],
)
def test_impossible_factors_are_refused(brokers: int, factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas(plain(brokers), 1, factor, Random())
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert message in caught.value.message

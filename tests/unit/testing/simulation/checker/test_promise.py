"""What a cluster promises: which power cuts may take something, and what is promised at all."""

from __future__ import annotations

from moldau.testing.simulation.checker.crash import Crash
from moldau.testing.simulation.checker.promise import harmful_cuts, is_promised


def cut(at: float, broker: int = 1) -> Crash:
    return Crash(at, f"broker-{broker}", power=True)


def test_one_broker_that_loses_power_may_lose_a_tail() -> None:
    assert harmful_cuts([cut(1.0), cut(2.0)], [], brokers=1) == [1.0, 2.0]
    assert harmful_cuts([cut(1.0)], [0.5], brokers=1) == [1.0]


def test_kills_take_nothing() -> None:
    kills = [Crash(1.0, f"broker-{each}", power=False) for each in (1, 2, 3)]
    assert not harmful_cuts(kills, [], brokers=1)
    assert not harmful_cuts(kills, [], brokers=3)


def test_a_minority_may_lose_power_as_often_as_it_likes() -> None:
    assert not harmful_cuts([cut(1.0), cut(2.0), cut(3.0)], [], brokers=3)
    assert not harmful_cuts([cut(1.0, 1), cut(2.0, 2), cut(3.0, 1)], [], brokers=5)


def test_a_second_of_three_may_take_something() -> None:
    assert harmful_cuts([cut(2.0, 2), cut(1.0, 1)], [], brokers=3) == [2.0]
    assert harmful_cuts([cut(1.0, 1), cut(2.0, 2), cut(3.0, 1)], [], brokers=3) == [2.0, 3.0]


def test_a_catch_up_between_two_cuts_is_enough() -> None:
    cuts = [cut(1.0, 1), cut(3.0, 2), cut(5.0, 3)]
    assert not harmful_cuts(cuts, [2.0, 4.0], brokers=3)
    assert harmful_cuts(cuts, [2.0], brokers=3) == [5.0]
    assert harmful_cuts(cuts, [6.0], brokers=3) == [3.0, 5.0]


def test_a_catch_up_at_the_moment_of_a_cut_came_before_it() -> None:
    assert not harmful_cuts([cut(1.0, 1), cut(2.0, 2)], [2.0], brokers=3)


def test_a_cluster_promises_what_all_in_sync_replicas_have() -> None:
    assert is_promised(-1, brokers=3)
    assert not is_promised(1, brokers=3)
    assert is_promised(1, brokers=1)
    assert is_promised(-1, brokers=1)
    assert not is_promised(0, brokers=1)

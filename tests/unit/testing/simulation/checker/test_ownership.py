"""Ownership: one member for a partition in a generation."""

from __future__ import annotations

from tests.unit.testing.simulation.checker.told import Told

from moldau.testing.simulation.checker.ownership import OWNED_TWICE


def test_a_partition_has_one_owner_in_a_generation() -> None:
    told = Told()
    told.owned("a", 5, 1.0)
    told.owned("b", 5, 2.0)
    assert told.broken == [OWNED_TWICE]


def test_another_generation_may_have_another_owner() -> None:
    told = Told()
    told.owned("a", 5, 1.0)
    told.owned("b", 6, 2.0)
    assert told.broken == []


def test_a_member_may_be_told_twice() -> None:
    told = Told()
    told.owned("a", 5, 1.0)
    told.owned("a", 5, 2.0)
    assert told.broken == []


def test_who_is_in_no_generation_owns_nothing() -> None:
    told = Told()
    told.owned("a", -1, 1.0)
    told.owned("b", -1, 2.0)
    assert told.broken == []


def test_a_power_cut_may_take_a_generation_that_is_counted_again() -> None:
    told = Told()
    told.owned("a", 5, 1.0)
    told.crash(2.0)
    told.owned("b", 5, 3.0)
    assert told.broken == []
    told.owned("c", 5, 4.0)
    assert told.broken == [OWNED_TWICE]  # b and c: nothing was lost between them


def test_a_kill_takes_no_generation_and_a_power_cut_none_that_is_synced() -> None:
    told = Told()
    told.owned("a", 5, 1.0)
    told.crash(2.0, power=False)
    told.owned("b", 5, 3.0)
    assert told.broken == [OWNED_TWICE]
    told = Told(synced=True)
    told.owned("a", 5, 1.0)
    told.crash(2.0)
    told.owned("b", 5, 3.0)
    assert told.broken == [OWNED_TWICE]


def test_a_member_may_have_slept_over_the_power_cut() -> None:
    told = Told()
    told.owned("a", 5, 3.0, heard=1.0)
    told.crash(2.0)
    told.owned("b", 5, 4.0)
    assert told.broken == []

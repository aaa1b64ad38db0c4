"""Topics: what a client is told agrees with what was done."""

from __future__ import annotations

import pytest
from tests.unit.testing.simulation.checker.told import Told

from moldau.testing.simulation.checker.history import UNSET, TopicAction
from moldau.testing.simulation.checker.topics import UNTRUE

CREATE, DELETE, GROW, ALTER = (
    TopicAction.CREATE,
    TopicAction.DELETE,
    TopicAction.GROW,
    TopicAction.ALTER,
)


@pytest.fixture
def told() -> Told:
    """A topic that was made with three partitions."""
    told = Told()
    told.change(CREATE, 3, 1.0, 2.0)
    return told


# Existence ---------------------------------------------------------------------------------------


def test_a_topic_that_was_made_exists(told: Told) -> None:
    told.topic(3, 3.0)
    assert told.broken == []
    told.topic(0, 3.0)
    assert told.broken == [UNTRUE]


def test_a_topic_that_nobody_made_does_not_exist() -> None:
    told = Told()
    told.topic(0, 3.0)
    assert told.broken == []
    told.topic(1, 3.0)
    assert set(told.broken) == {UNTRUE}


def test_a_topic_that_was_deleted_is_gone(told: Told) -> None:
    told.change(DELETE, 0, 3.0, 4.0)
    told.topic(0, 5.0)
    assert told.broken == []
    told.topic(3, 5.0)
    assert told.broken == [UNTRUE]


def test_a_topic_may_be_made_again(told: Told) -> None:
    told.change(DELETE, 0, 3.0, 4.0)
    told.change(CREATE, 1, 5.0, 6.0)
    told.topic(1, 7.0)
    assert told.broken == []
    told.topic(0, 7.0)
    assert told.broken == [UNTRUE]


def test_who_asks_while_a_topic_changes_may_hear_either(told: Told) -> None:
    told.change(DELETE, 0, 3.0, 6.0)
    for partitions in (0, 3):
        told.topic(partitions, 4.0)
        told.topic(partitions, 2.5, 7.0)
    assert told.broken == []


def test_who_has_asked_before_a_change_hears_nothing_of_it(told: Told) -> None:
    told.change(DELETE, 0, 5.0, 6.0)
    told.topic(0, 3.0, 4.0)
    assert told.broken == [UNTRUE]


def test_a_change_of_unknown_fate_leaves_it_open(told: Told) -> None:
    told.change(DELETE, 0, 3.0)
    told.topic(0, 5.0)
    told.topic(3, 5.0)
    assert told.broken == []


@pytest.mark.parametrize(("done", "allowed"), [(7.9, False), (8.0, True)])
def test_a_change_that_was_asked_for_twice_may_come_again(
    told: Told, done: float, allowed: bool
) -> None:
    told.change(DELETE, 0, 3.0, done)
    told.change(CREATE, 3, 9.0, 10.0)
    told.topic(0, 11.0)
    assert told.broken == ([] if allowed else [UNTRUE])


def test_of_changes_at_once_either_may_be_the_last() -> None:
    told = Told()
    told.change(CREATE, 3, 1.0, 5.0)
    told.change(DELETE, 0, 2.0, 4.0)
    told.topic(3, 6.0)
    told.topic(0, 6.0)
    assert told.broken == []


@pytest.mark.parametrize("power", [True, False])
def test_no_crash_takes_a_topic(told: Told, power: bool) -> None:
    told.crash(3.0, power=power)
    told.topic(0, 4.0)
    assert told.broken == [UNTRUE]


# Partitions --------------------------------------------------------------------------------------


def test_a_topic_has_as_many_partitions_as_it_was_given(told: Told) -> None:
    told.topic(2, 3.0)
    assert told.broken == [UNTRUE]


def test_a_topic_that_has_grown_stays_so(told: Told) -> None:
    told.change(GROW, 5, 3.0, 4.0)
    told.topic(5, 5.0)
    assert told.broken == []
    told.topic(3, 5.0)
    assert told.broken == [UNTRUE]


def test_who_asks_while_a_topic_grows_may_hear_either(told: Told) -> None:
    told.change(GROW, 5, 3.0, 6.0)
    told.topic(3, 4.0)
    told.topic(5, 4.0)
    assert told.broken == []
    told.topic(4, 4.0)
    assert told.broken == [UNTRUE]


def test_a_topic_that_is_made_again_has_new_partitions(told: Told) -> None:
    told.change(GROW, 5, 3.0, 4.0)
    told.change(DELETE, 0, 5.0, 6.0)
    told.change(CREATE, 1, 7.0, 8.0)
    told.topic(1, 9.0)
    assert told.broken == []
    told.topic(5, 9.0)
    assert told.broken == [UNTRUE]


def test_growth_of_unknown_fate_leaves_it_open(told: Told) -> None:
    told.change(GROW, 5, 3.0)
    told.topic(3, 9.0)
    told.topic(5, 9.0)
    assert told.broken == []


# Settings ----------------------------------------------------------------------------------------


def test_a_setting_is_what_it_was_set_to(told: Told) -> None:
    told.topic(3, 3.0, setting=UNSET)
    told.change(ALTER, 100, 4.0, 5.0)
    told.topic(3, 6.0, setting=100)
    told.topic(3, 6.0)  # nobody asked
    assert told.broken == []


@pytest.mark.parametrize("setting", [UNSET, 50])
def test_a_setting_is_not_lost(told: Told, setting: int) -> None:
    told.change(ALTER, 50, 3.0, 4.0)
    told.change(ALTER, 100, 5.0, 6.0)
    told.topic(3, 7.0, setting=setting)
    assert told.broken == [UNTRUE]


def test_a_setting_does_not_outlive_its_topic(told: Told) -> None:
    told.change(ALTER, 100, 3.0, 4.0)
    told.change(DELETE, 0, 5.0, 6.0)
    told.change(CREATE, 3, 7.0, 8.0)
    told.topic(3, 9.0, setting=UNSET)
    assert told.broken == []
    told.topic(3, 9.0, setting=100)
    assert told.broken == [UNTRUE]


def test_a_setting_of_unknown_fate_leaves_it_open(told: Told) -> None:
    told.change(ALTER, 100, 3.0)
    told.topic(3, 9.0, setting=UNSET)
    told.topic(3, 9.0, setting=100)
    assert told.broken == []

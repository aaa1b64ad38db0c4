"""Committed offsets: told as committed, never back, never ahead of what the program got."""

from __future__ import annotations

import pytest
from tests.unit.testing.simulation.checker.told import Told

from moldau.testing.simulation.checker.offsets import (
    BEGAN_BEFORE,
    INVENTED,
    UNREAD,
    WENT_BACK,
)


@pytest.fixture
def told() -> Told:
    """A group that was given ten records."""
    told = Told()
    records = [told.sent(number, number, acked=1.0) for number in range(10)]
    told.left(*records)
    for offset, record in enumerate(records):
        told.seen(record, offset, at=2.0)
    return told


# Back --------------------------------------------------------------------------------------------


def test_the_last_commit_is_told(told: Told) -> None:
    told.commit(3, 3.0, 4.0)
    told.commit(5, 5.0, 6.0)
    told.committed(5, 7.0)
    assert told.broken == []


@pytest.mark.parametrize("offset", [3, -1])
def test_a_commit_does_not_go_back(told: Told, offset: int) -> None:
    told.commit(3, 3.0, 4.0)
    told.commit(5, 5.0, 6.0)
    told.committed(offset, 7.0)
    assert told.broken == [WENT_BACK]


def test_who_asks_before_a_commit_is_through_may_hear_either(told: Told) -> None:
    told.commit(3, 3.0, 4.0)
    told.commit(5, 5.0, 8.0)
    told.committed(3, 6.0)
    told.committed(5, 6.0)
    told.committed(3, 4.5, 9.0)
    told.committed(5, 4.5, 9.0)
    assert told.broken == []


def test_what_is_not_committed_yet_is_not_told(told: Told) -> None:
    told.commit(5, 5.0, 6.0)
    told.committed(5, 3.0, 4.0)
    assert told.broken == [INVENTED]


def test_of_commits_at_once_any_may_be_the_last(told: Told) -> None:
    told.commit(3, 3.0, 6.0, member="a")
    told.commit(5, 4.0, 5.0, member="b")
    told.committed(3, 7.0)
    told.committed(5, 7.0)
    assert told.broken == []


def test_a_program_may_commit_less_than_before(told: Told) -> None:
    told.commit(5, 3.0, 4.0)
    told.commit(2, 5.0, 6.0)
    told.committed(2, 7.0)
    assert told.broken == []
    told.committed(5, 8.0)
    assert told.broken == [WENT_BACK]


def test_a_commit_of_unknown_fate_may_hold_at_any_time_or_never(told: Told) -> None:
    told.commit(3, 3.0)
    told.committed(-1, 4.0)
    told.committed(3, 4.0)
    told.commit(5, 5.0, 6.0)
    told.committed(5, 7.0)
    told.committed(3, 8.0)
    assert told.broken == []


@pytest.mark.parametrize(("done", "allowed"), [(7.9, False), (8.0, True)])
def test_a_commit_that_was_asked_for_twice_may_come_again(
    told: Told, done: float, allowed: bool
) -> None:
    told.commit(3, 3.0, done)
    told.commit(5, 9.0, 10.0)
    told.committed(3, 11.0)
    assert told.broken == ([] if allowed else [WENT_BACK])


def test_a_kill_takes_no_commit(told: Told) -> None:
    told.commit(3, 3.0, 4.0)
    told.crash(5.0, power=False)
    told.committed(-1, 6.0)
    assert told.broken == [WENT_BACK]


def test_a_power_cut_takes_commits_unless_they_are_synced(told: Told) -> None:
    told.commit(3, 3.0, 4.0)
    told.crash(5.0)
    told.committed(-1, 6.0)
    assert told.broken == []
    told.history.synced_always = True
    assert told.broken == [WENT_BACK]


def test_a_power_cut_takes_no_later_commit(told: Told) -> None:
    told.crash(2.5)
    told.commit(3, 3.0, 4.0)
    told.committed(-1, 6.0)
    assert told.broken == [WENT_BACK]


def test_an_answer_may_have_waited_for_its_program_while_the_power_was_cut(told: Told) -> None:
    told.commit(3, 3.0, 6.0, heard=4.0)
    told.crash(5.0)
    told.committed(-1, 7.0)
    assert told.broken == []


# Invented ----------------------------------------------------------------------------------------


def test_an_offset_that_nobody_committed_is_not_told(told: Told) -> None:
    told.commit(3, 3.0, 4.0)
    told.committed(2, 5.0)
    assert told.broken == [INVENTED]


def test_no_offset_is_told_where_none_was_committed(told: Told) -> None:
    told.committed(-1, 5.0)
    assert told.broken == []


def test_groups_that_do_not_note_their_commits_are_not_held_to_them(told: Told) -> None:
    told.history.noting_groups.clear()
    told.committed(2, 5.0)
    told.committed(1, 6.0)
    assert told.broken == []


# Beginnings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "broken"), [(3, []), (4, []), (2, [BEGAN_BEFORE])])
def test_a_member_begins_where_its_group_has_got_to(
    told: Told, given: int, broken: list[str]
) -> None:
    told.commit(3, 3.0, 4.0)
    told.owned("reader", 2, 5.0)
    told.seen(told.history.sights[given].id, given, at=6.0)
    assert told.broken == broken


def test_a_commit_that_nobody_heard_of_binds_no_member(told: Told) -> None:
    told.commit(1, 2.0, 2.5)
    told.commit(3, 3.0)
    told.owned("reader", 2, 5.0)
    told.seen(told.history.sights[1].id, 1, at=6.0)
    assert told.broken == []


def test_a_member_goes_on_with_what_it_keeps(told: Told) -> None:
    """It does not ask where to begin: what it committed is behind what it was given."""
    told.owned("reader", 1, 2.5)
    told.commit(3, 3.0, 4.0)
    told.history.ownerships[0].until = 5.0
    told.owned("reader", 2, 5.0)
    told.seen(told.history.sights[2].id, 2, at=6.0)
    assert told.broken == []


# Unread ------------------------------------------------------------------------------------------


def unnoted(given: list[int], *, records: int = 10) -> Told:
    """A group whose commits nobody notes, and what it was given, one record a second."""
    told = Told()
    told.history.noting_groups.clear()
    sent = [told.sent(number, number, acked=0.5) for number in range(records)]
    told.left(*sent)
    for number, offset in enumerate(given):
        told.seen(sent[offset], offset, at=1.0 + number)
    return told


def test_what_was_given_may_be_committed() -> None:
    told = unnoted([0, 1, 2])
    told.committed(3, 5.0)
    assert told.broken == []


def test_what_was_not_given_is_not_committed() -> None:
    told = unnoted([0, 1, 2])
    told.committed(4, 5.0)
    assert told.broken == [UNREAD]


def test_what_is_given_later_is_not_committed_yet() -> None:
    told = unnoted([0, 1, 2])
    told.committed(3, 2.5)
    assert told.broken == [UNREAD]


def test_nothing_is_left_out() -> None:
    told = unnoted([0, 2, 3])
    told.committed(4, 5.0)
    assert told.broken == [UNREAD]
    told = unnoted([0, 2, 3, 1])
    told.committed(4, 5.0)
    assert told.broken == []


def test_nobody_commits_beyond_the_end() -> None:
    told = unnoted([0, 1, 2], records=3)
    told.committed(3, 5.0)
    assert told.broken == []
    told.committed(4, 6.0)
    assert told.broken == [UNREAD]


def test_what_a_group_was_given_elsewhere_does_not_count() -> None:
    told = unnoted([0, 1, 2])
    record = told.history.sights[0].id
    assert record is not None
    for offset in (3, 4):
        told.seen(told.sent(offset + 100, producer="q"), offset, group="other")
    told.committed(5, 9.0)
    assert UNREAD in told.broken


def test_a_tail_that_a_power_cut_took_was_given_all_the_same() -> None:
    told = unnoted([0, 1, 2])
    told.left(*(record for _, record in told.history.final_logs.popitem()[1].records[:1]))
    told.crash(5.5)
    told.committed(3, 5.0)
    assert told.broken == []


def test_a_group_goes_on_behind_what_was_deleted_before_it_was_read() -> None:
    told = Told()
    told.sent(0, 0, acked=1.0)
    told.deleted(before=1)
    told.left(start=1)
    told.commit(1, 4.0, 4.1)
    told.committed(1, 5.0)
    assert told.broken == []


def test_what_was_deleted_after_the_end_was_known_need_not_be_given_to_anybody() -> None:
    told = Told()
    told.left(told.sent(0, 0, acked=1.0))
    told.deleted(before=1, at=9.0)
    told.commit(1, 10.0, 10.1)
    told.committed(1, 11.0)
    assert told.broken == []

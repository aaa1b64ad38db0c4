"""Compacted partitions: the last record of every key stays, in its place and order."""

from __future__ import annotations

import pytest
from tests.unit.testing.simulation.checker.told import Told

from moldau.testing.simulation.checker.offsets import UNREAD
from moldau.testing.simulation.checker.records import (
    DOUBLED,
    GONE,
    HOLE,
    INVENTED,
    LOST,
    REORDERED,
)


@pytest.fixture
def told() -> Told:
    return Told(compacts=True)


def test_a_record_may_go_when_a_later_one_of_its_key_is_there(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.seen(first, 0)
    told.left(last, offsets=[1])
    assert told.broken == []


def test_a_record_may_stay_although_a_later_one_of_its_key_is_there(told: Told) -> None:
    records = [told.sent(number, number, acked=2.0, key=b"a") for number in range(3)]
    told.left(*records)
    assert told.broken == []


def test_the_last_record_of_a_key_stays(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    told.sent(1, 1, acked=2.0, key=b"a")
    other = told.sent(2, 2, acked=2.0, key=b"b")
    told.left(first, other, offsets=[0, 2])
    assert told.broken == [LOST]


def test_a_record_of_another_key_takes_nobodys_place(told: Told) -> None:
    record = told.sent(0, 0, acked=2.0, key=b"a")
    other = told.sent(1, 1, acked=2.0, key=b"b")
    told.seen(record, 0)
    told.left(other, offsets=[1])
    assert told.broken == [LOST, GONE]


def test_an_earlier_record_of_the_key_does_not_count(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.seen(last, 1)
    told.left(first, offsets=[0])
    assert told.broken == [LOST, GONE]


def test_a_later_record_counts_although_nobody_knew_of_it(told: Told) -> None:
    told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, key=b"a")
    told.left(last, offsets=[1])
    assert told.broken == []


def test_a_power_cut_takes_the_last_record_of_a_key_with_all_behind_it(told: Told) -> None:
    kept = told.sent(0, 0, acked=2.0, key=b"a")
    told.sent(1, 1, acked=2.0, key=b"b")
    told.crash(3.0)
    told.left(kept)
    assert told.broken == []


def test_a_record_stays_in_its_place(told: Told) -> None:
    told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(last, offsets=[0])
    assert told.broken == [LOST, INVENTED]


def test_a_record_does_not_move_behind_a_later_one_of_its_key(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(last, first, offsets=[1, 2])
    assert told.broken == [REORDERED, INVENTED]


def test_offsets_rise(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"b")
    told.left(last, first, offsets=[1, 0])
    assert HOLE in told.broken


def test_a_record_stands_once(told: Told) -> None:
    record = told.sent(0, 0, acked=2.0, key=b"a")
    told.left(record, record, offsets=[0, 3])
    assert told.broken == [DOUBLED]


def test_a_duplicate_that_has_lost_its_offset_may_be_compacted_too(told: Told) -> None:
    told.sent(0, -1, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(last, offsets=[1])
    assert told.broken == []


def test_elsewhere_a_later_record_of_the_key_is_no_excuse() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(last, offsets=[1])
    assert told.broken == [HOLE, LOST]


# Committed offsets -------------------------------------------------------------------------------


def test_what_may_go_need_not_be_given_to_anybody(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(first, last)
    told.seen(last, 1, at=5.0)
    told.commit(2, 5.0, 5.1)
    told.committed(2, 6.0)
    assert told.broken == []


def test_the_last_record_of_a_key_is_given_before_it_is_committed(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(1, 1, acked=2.0, key=b"a")
    told.left(first, last)
    told.seen(first, 0, at=5.0)
    told.commit(2, 5.0, 5.1)
    told.committed(2, 6.0)
    assert told.broken == [UNREAD]


def test_who_has_read_what_is_gone_now_may_have_committed_behind_it(told: Told) -> None:
    first = told.sent(0, 0, acked=2.0, key=b"a")
    last = told.sent(9, 9, acked=9.0, key=b"a")
    told.left(last, offsets=[9])
    told.seen(first, 0, at=5.0)
    told.commit(3, 5.0, 5.1)
    told.committed(3, 6.0)
    assert told.broken == []


def test_of_a_record_that_a_plain_producer_sent_twice_the_second_may_be_left(told: Told) -> None:
    twice = told.sent(0, 2, acked=3.0, key=b"a", idempotent=False)
    between = told.sent(1, 1, acked=2.0, key=b"b", idempotent=False)
    told.left(between, twice, offsets=[1, 2])
    assert told.broken == []


def test_records_of_an_idempotent_producer_keep_their_order(told: Told) -> None:
    first = told.sent(0, 2, acked=3.0, key=b"a")
    second = told.sent(1, 1, acked=2.0, key=b"b")
    told.left(second, first, offsets=[1, 2])
    assert told.broken == [REORDERED]


def test_a_plain_producer_may_be_told_the_place_that_compaction_takes(told: Told) -> None:
    twice = told.sent(0, 0, acked=2.0, key=b"a", idempotent=False)
    told.left(twice, offsets=[1])
    assert told.broken == []


def test_an_idempotent_producer_is_told_where_its_record_is(told: Told) -> None:
    record = told.sent(0, 0, acked=2.0, key=b"a")
    told.left(record, offsets=[1])
    assert told.broken == [INVENTED]

"""Records: for each promise a history that breaks it, and the nearest ones that do not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.testing.simulation.checker.told import PARTITION, Told

from moldau.testing.simulation.checker.history import FinalLog, RecordId
from moldau.testing.simulation.checker.records import (
    DOUBLED,
    GONE,
    HOLE,
    INVENTED,
    LOST,
    REORDERED,
    SKIPPED,
    TORN,
    UNREAD,
)


def test_a_life_without_trouble_breaks_nothing() -> None:
    told = Told()
    records = [told.sent(number, number, acked=2.0) for number in range(10)]
    told.left(*records)
    for offset, record in enumerate(records):
        told.seen(record, offset)
    assert told.broken == []


# Lost --------------------------------------------------------------------------------------------


def test_an_acknowledged_record_is_there() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.left()
    assert told.broken == [LOST]


def test_a_kill_takes_nothing() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.crash(3.0, power=False)
    told.left()
    assert told.broken == [LOST]


def test_what_was_never_acknowledged_may_be_there_or_not() -> None:
    told = Told()
    told.sent(0)
    there = told.sent(1)
    told.left(there)
    assert told.broken == []


def test_what_was_sent_without_acks_may_be_lost() -> None:
    told = Told()
    told.sent(0, -1, acked=2.0, acks=0, idempotent=False)
    told.left()
    assert told.broken == []


def test_a_power_cut_takes_what_was_acknowledged_before_it() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.crash(3.0)
    told.left()
    assert told.broken == []


def test_a_power_cut_takes_nothing_that_was_acknowledged_after_it() -> None:
    told = Told()
    told.sent(0, 0, acked=4.0)
    told.crash(3.0)
    told.left()
    assert told.broken == [LOST]


def test_a_power_cut_takes_nothing_that_is_always_synced() -> None:
    told = Told(synced=True)
    told.sent(0, 0, acked=2.0)
    told.crash(3.0)
    told.left()
    assert told.broken == [LOST]


def test_an_answer_may_have_waited_for_its_program_while_the_power_was_cut() -> None:
    told = Told()
    told.sent(0, 0, acked=4.0, heard=2.0)
    told.crash(3.0)
    told.left()
    assert told.broken == []


def test_a_power_cut_takes_a_tail_that_later_records_replace() -> None:
    told = Told()
    kept = told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    told.sent(2, 2, acked=2.0)
    told.crash(3.0)
    later = told.sent(3, 1, acked=4.0)
    told.left(kept, later)
    assert told.broken == []


def test_a_tail_may_be_taken_and_replaced_before_yet_another_power_cut() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.crash(3.0)
    later = told.sent(1, 0, acked=4.0)
    told.crash(5.0)
    told.left(later)
    assert told.broken == []


def test_a_power_cut_takes_nothing_from_the_middle() -> None:
    told = Told()
    first = told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    third = told.sent(2, 2, acked=2.0)
    told.crash(3.0)
    told.left(first, third, offsets=[0, 2])
    assert told.broken == [HOLE, LOST]


def test_a_power_cut_does_not_let_an_old_record_move_up() -> None:
    told = Told()
    first = told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    third = told.sent(2, 2, acked=2.0)
    told.crash(3.0)
    told.left(first, third)
    assert told.broken == [LOST]


def test_a_record_of_unknown_fate_may_take_the_place_of_a_tail() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.crash(3.0)
    unknown = told.sent(1)
    told.left(unknown)
    assert told.broken == []


def test_an_offset_belongs_to_the_record_it_was_told_for() -> None:
    told = Told()
    first, second = told.sent(0, 1, acked=2.0, ordered=False), told.sent(1, 0, acked=2.0)
    told.left(first, second)
    assert told.broken == [INVENTED, INVENTED]


def test_an_acknowledgement_has_an_offset() -> None:
    told = Told()
    record = told.sent(0, -1, acked=2.0, idempotent=False)
    told.left(record)
    assert told.broken == [INVENTED]


def test_a_duplicate_that_has_lost_its_offset_is_there() -> None:
    told = Told()
    told.left(told.sent(0, -1, acked=2.0))
    assert told.broken == []
    told = Told()
    told.sent(0, -1, acked=2.0)
    told.left()
    assert told.broken == [LOST]


def test_a_partition_that_nobody_has_read_is_not_taken_for_whole() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    assert told.broken == [UNREAD]
    told = Told()
    told.sent(0)
    assert told.broken == []


# Holes and beginnings ----------------------------------------------------------------------------


def test_offsets_follow_one_upon_the_other() -> None:
    told = Told()
    told.left(*(told.sent(number) for number in range(4)), offsets=[0, 1, 3, 4])
    assert told.broken == [HOLE]


def test_not_even_a_power_cut_leaves_a_hole() -> None:
    told = Told()
    kept = told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    told.crash(3.0)
    later = told.sent(2, 2, acked=4.0)
    told.left(kept, later, offsets=[0, 2])
    assert told.broken == [HOLE]


def test_a_partition_ends_where_its_last_record_does() -> None:
    told = Told()
    record = told.sent(0, 0, acked=2.0)
    told.history.final_logs[PARTITION] = FinalLog(PARTITION, 0, 3, [(0, record)])
    assert told.broken == [HOLE]


def test_a_partition_starts_where_it_began() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    later = told.sent(1, 1, acked=2.0)
    told.left(later, start=1)
    assert told.broken == [HOLE, LOST]


def test_old_records_may_go_where_somebody_deletes_them() -> None:
    told = Told(deletes=True)
    old, later = told.sent(0, 0, acked=2.0), told.sent(1, 1, acked=2.0)
    told.seen(old, 0)
    told.left(later, start=1)
    assert told.broken == []


def test_where_old_records_are_deleted_newer_ones_are_still_there() -> None:
    told = Told(deletes=True)
    told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    told.sent(2, 2, acked=2.0)
    told.left(RecordId("p", 2), offsets=[2], start=1)
    assert told.broken == [HOLE, LOST]


def test_records_may_go_that_somebody_asked_to_be_deleted() -> None:
    told = Told()
    old, later = told.sent(0, 0, acked=2.0), told.sent(1, 1, acked=2.0)
    told.seen(old, 0)
    told.deleted(before=1)
    told.left(later, start=1)
    assert told.broken == []


def test_records_may_come_back_that_somebody_asked_to_be_deleted() -> None:
    told = Told()
    records = [told.sent(number, number, acked=2.0) for number in range(2)]
    told.deleted(before=1)
    told.crash(4.0, power=False)
    told.left(*records)
    assert told.broken == []


def test_nothing_goes_beyond_what_somebody_asked_to_be_deleted() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    last = told.sent(2, 2, acked=2.0)
    told.deleted(before=1)
    told.left(last, start=2)
    assert told.broken == [HOLE, LOST]


def test_deleting_the_past_takes_nothing_from_the_present() -> None:
    told = Told()
    told.sent(0, 0, acked=2.0)
    told.sent(1, 1, acked=2.0)
    told.deleted(before=1)
    told.left(start=1)
    assert told.broken == [LOST]


# Doubled -----------------------------------------------------------------------------------------


def test_a_record_of_an_idempotent_producer_stands_once() -> None:
    told = Told()
    record = told.sent(0, 0, acked=2.0)
    told.left(record, record)
    assert told.broken == [DOUBLED]


def test_not_even_crashes_double_a_record() -> None:
    told = Told()
    record = told.sent(0, 1, acked=9.0)
    told.crash(3.0)
    told.crash(4.0, power=False)
    told.left(record, record)
    assert told.broken == [DOUBLED]


def test_a_plain_producer_may_double_its_records() -> None:
    told = Told()
    record = told.sent(0, 1, acked=2.0, idempotent=False)
    told.left(record, record)
    assert told.broken == []


# Reordered ---------------------------------------------------------------------------------------


def test_records_of_a_producer_keep_their_order() -> None:
    told = Told()
    first, second = told.sent(0), told.sent(1)
    told.left(second, first)
    assert told.broken == [REORDERED]


def test_producers_may_overtake_each_other() -> None:
    told = Told()
    told.left(
        *(told.sent(number, producer=name) for number, name in ((5, "a"), (1, "b"), (6, "a")))
    )
    assert told.broken == []


def test_a_producer_with_several_requests_under_way_promises_no_order() -> None:
    told = Told()
    first = told.sent(0, 1, acked=2.0, idempotent=False, ordered=False)
    second = told.sent(1, 0, acked=2.0, idempotent=False, ordered=False)
    told.left(second, first)
    assert told.broken == []


def test_a_plain_producer_keeps_the_order_of_what_was_acknowledged() -> None:
    told = Told()
    first = told.sent(0, 1, acked=2.0, idempotent=False)
    second = told.sent(1, 0, acked=2.0, idempotent=False)
    told.left(second, first)
    assert told.broken == [REORDERED]


def test_what_a_plain_producer_has_given_up_may_come_late() -> None:
    told = Told()
    first = told.sent(0, idempotent=False)
    second = told.sent(1, 0, acked=2.0, idempotent=False)
    told.left(second, first)
    assert told.broken == []


def test_of_a_doubled_record_the_first_place_counts() -> None:
    told = Told()
    first = told.sent(0, 0, acked=2.0, idempotent=False)
    second = told.sent(1, 1, acked=2.0, idempotent=False)
    told.left(first, second, first)
    assert told.broken == []
    told.left(second, first, second)
    assert REORDERED in told.broken


def test_of_a_doubled_record_whose_first_place_was_cut_in_two_the_acknowledged_place_counts() -> (
    None
):
    told = Told(deletes=True)
    records = [told.sent(number, 5 + number, acked=2.0, idempotent=False) for number in range(4)]
    told.left(*records[2:], *records, start=3)
    assert told.broken == []


def test_what_is_left_of_a_log_keeps_the_order_of_what_was_acknowledged() -> None:
    told = Told(deletes=True)
    first = told.sent(0, 6, acked=2.0, idempotent=False)
    second = told.sent(1, 5, acked=2.0, idempotent=False)
    told.left(second, first, start=5)
    assert told.broken == [REORDERED]


# Torn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [None, RecordId("nobody", 1)])
def test_what_nobody_sent_is_not_there(record: RecordId | None) -> None:
    told = Told()
    told.left(record)
    assert told.broken == [TORN]


@pytest.mark.parametrize("record", [None, RecordId("nobody", 1)])
@pytest.mark.parametrize("reads", [True, False])
def test_what_nobody_sent_is_given_to_nobody(record: RecordId | None, reads: bool) -> None:
    told = Told()
    if reads:
        told.left()
    told.crash(6.0)
    told.seen(record, 0)
    assert told.broken == [TORN]


# Seen and gone -----------------------------------------------------------------------------------


def test_what_was_seen_stays() -> None:
    told = Told()
    record = told.sent(0)
    told.seen(record, 0)
    told.left()
    assert told.broken == [GONE]


def test_what_was_stored_after_the_end_was_known_is_not_missed() -> None:
    told = Told()
    kept, late = told.sent(0, 0, acked=2.0), told.sent(1)
    told.seen(late, 1, at=8.0)
    told.left(kept, read_at=7.0)
    assert told.broken == []
    told.seen(late, 1, at=6.0)
    assert told.broken == [GONE]


def test_what_was_seen_stays_in_its_place() -> None:
    told = Told()
    first, second = told.sent(0), told.sent(1)
    told.seen(first, 1)
    told.left(first, second)
    assert told.broken == [GONE]


@pytest.mark.parametrize(("at", "allowed"), [(0.5, False), (3.0, True), (6.0, True)])
def test_what_was_seen_may_go_with_a_power_cut_since_it_was_sent(at: float, allowed: bool) -> None:
    told = Told()
    record = told.sent(0, at=1.0)
    told.seen(record, 0, at=5.0)
    told.crash(at)
    told.left()
    assert told.broken == ([] if allowed else [GONE])


def test_what_was_seen_and_is_always_synced_stays() -> None:
    told = Told(synced=True)
    record = told.sent(0)
    told.seen(record, 0)
    told.crash(6.0)
    told.left()
    assert told.broken == [GONE]


def test_what_was_seen_does_not_go_alone() -> None:
    told = Told()
    record = told.sent(0)
    behind = told.sent(1, 1, acked=2.0)
    told.seen(record, 0)
    told.crash(3.0)
    told.left(behind, offsets=[1])
    assert told.broken == [HOLE, GONE]


# Left out ----------------------------------------------------------------------------------------


def test_who_reads_alone_is_given_everything() -> None:
    told = Told()
    records = [told.sent(number, number, acked=2.0) for number in range(4)]
    told.left(*records)
    for offset in (0, 1, 2):  # what it has not come to yet does not count
        told.seen(records[offset], offset, group="")
    assert told.broken == []


def test_who_reads_alone_leaves_nothing_out() -> None:
    told = Told()
    records = [told.sent(number, number, acked=2.0) for number in range(4)]
    told.left(*records)
    for offset in (0, 2):
        told.seen(records[offset], offset, group="")
    assert told.broken == [SKIPPED]


def test_what_took_the_place_of_a_lost_tail_is_not_left_out() -> None:
    told = Told()
    lost = told.sent(0, at=1.0)
    told.crash(3.0)
    instead, behind = told.sent(1, 0, at=4.0, acked=4.0), told.sent(2, 1, at=4.0, acked=4.0)
    told.left(instead, behind)
    told.seen(lost, 0, at=2.0, group="")
    assert told.broken == []
    told.seen(behind, 1, group="")
    assert told.broken == [SKIPPED]
    told.seen(instead, 0, group="")
    assert told.broken == []


def test_another_member_of_the_group_may_be_given_what_lies_between() -> None:
    told = Told()
    records = [told.sent(number, number, acked=2.0) for number in range(2)]
    told.left(*records)
    told.seen(records[1], 1)
    assert told.broken == []


# A broker that keeps its promises ----------------------------------------------------------------


def live(seed: int, *, synced: bool) -> Told:
    """The history of a log that loses tails in power cuts, and of nothing else."""
    chance = random.Random(seed)
    told = Told(synced=synced)
    log: list[RecordId] = []
    durable = 0
    for number in range(60):
        now = float(number)
        fate = chance.random()
        if fate < 0.05:
            told.crash(now, power=True)
            if not synced:
                del log[chance.randrange(durable, len(log) + 1) :]
            durable = len(log)
        elif fate < 0.1:
            told.crash(now, power=False)
        elif fate < 0.2:
            durable = len(log)
        elif fate < 0.4 and log:
            offset = chance.randrange(len(log))
            told.seen(log[offset], offset, at=now)
        elif fate < 0.5:
            told.sent(number, at=now)
        else:
            acked = now + 0.1 if chance.random() < 0.8 else None
            log.append(told.sent(number, len(log), at=now, acked=acked))
    told.left(*log)
    return told


@given(st.integers(), st.booleans())
def test_a_broker_that_keeps_its_promises_is_left_alone(seed: int, synced: bool) -> None:
    assert live(seed, synced=synced).broken == []


@given(st.integers(), st.booleans(), st.randoms(use_true_random=False))
def test_a_record_missing_from_the_middle_is_always_noticed(
    seed: int, synced: bool, chance: random.Random
) -> None:
    told = live(seed, synced=synced)
    log = told.history.final_logs[PARTITION]
    if len(log.records) < 2:
        return
    del log.records[chance.randrange(len(log.records) - 1)]
    assert HOLE in told.broken

"""Lanes, turns, pauses and commits of the pure core, through whole lives of partitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.listener.dispatcher import Dispatcher
from moldau.client.listener.finished import read_finished
from moldau.client.listener.work import Ordering, Work
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def record(offset: int, key: bytes | None = None, at: TopicPartition = FIRST) -> ConsumerRecord:
    return ConsumerRecord(at.topic, at.partition, offset, key=key)


def begin_all(dispatcher: Dispatcher, now: float = 0.0) -> list[Work]:
    started = []
    while (work := dispatcher.next(now)) is not None:
        started.append(work)
    return started


def finish(dispatcher: Dispatcher, work: Work, now: float = 0.0) -> None:
    dispatcher.finished(work)
    dispatcher.handled(work, now)


def offsets_of(works: list[Work]) -> list[int]:
    return [work.record.offset for work in works]


def test_a_partition_is_handled_one_by_one() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=8, queue_size=10)
    dispatcher.assign([FIRST, SECOND])
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    dispatcher.add(SECOND, [record(7, at=SECOND)], 0.0)
    started = begin_all(dispatcher)
    assert sorted(offsets_of(started)) == [0, 7]
    finish(dispatcher, next(work for work in started if work.record.offset == 0))
    assert offsets_of(begin_all(dispatcher)) == [1]


def test_a_log_that_lost_its_end_is_handled_from_where_it_goes_on() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=8, queue_size=20)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(n) for n in range(8)], 0.0)
    for _ in range(3):
        (work,) = begin_all(dispatcher)
        finish(dispatcher, work)
    assert dispatcher.offsets()[FIRST].offset == 3
    dispatcher.add(FIRST, [record(5, b"new")], 0.0)
    for offset in (3, 4):
        (work,) = begin_all(dispatcher)
        assert work.record.offset == offset, "what the log still has is handled"
        finish(dispatcher, work)
    (work,) = begin_all(dispatcher)
    assert (work.record.offset, work.record.key) == (5, b"new")
    finish(dispatcher, work)
    assert dispatcher.offsets()[FIRST].offset == 6
    assert begin_all(dispatcher) == []


@pytest.mark.parametrize("ordering", Ordering)
@pytest.mark.parametrize("whole_batches", [False, True])
def test_what_is_committed_goes_back_with_the_log(ordering: Ordering, whole_batches: bool) -> None:
    dispatcher = Dispatcher(ordering, concurrency=8, queue_size=20, whole_batches=whole_batches)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(n) for n in range(6)], 0.0)
    while started := begin_all(dispatcher):
        for work in started:
            finish(dispatcher, work)
    dispatcher.committed(dispatcher.offsets())
    assert dispatcher.offsets() == {}
    dispatcher.add(FIRST, [record(2, b"new")], 0.0)
    (work,) = begin_all(dispatcher)
    assert dispatcher.offsets()[FIRST].offset == 2
    finish(dispatcher, work)
    assert dispatcher.offsets()[FIRST].offset == 3


@pytest.mark.parametrize("fate", ["finished", "retried"])
def test_a_record_that_was_lost_while_its_handler_ran_counts_for_nothing(fate: str) -> None:
    dispatcher = Dispatcher(Ordering.UNORDERED, concurrency=8, queue_size=20)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    first, lost = begin_all(dispatcher)
    finish(dispatcher, first)
    dispatcher.add(FIRST, [record(1, b"new")], 0.0)
    if fate == "finished":
        finish(dispatcher, lost)
    else:
        dispatcher.retry(lost, 5.0, 0.0)
        assert dispatcher.next_due() is None
    assert dispatcher.offsets()[FIRST].offset == 1, "another record is at its offset now"
    (new,) = begin_all(dispatcher)
    assert new.record.key == b"new"
    finish(dispatcher, new)
    assert dispatcher.offsets()[FIRST].offset == 2
    assert dispatcher.running == 0


def test_keys_run_beside_each_other_and_each_in_order() -> None:
    dispatcher = Dispatcher(Ordering.KEY, concurrency=8, queue_size=10)
    dispatcher.assign([FIRST])
    keys = [b"a", b"b", b"a", None, None]
    dispatcher.add(FIRST, [record(n, key) for n, key in enumerate(keys)], 0.0)
    first, second, *others = begin_all(dispatcher)
    assert offsets_of([first, second, *others]) == [0, 1, 3, 4]
    finish(dispatcher, second)
    assert begin_all(dispatcher) == []
    finish(dispatcher, first)
    assert offsets_of(begin_all(dispatcher)) == [2]


def test_concurrency_bounds_all_partitions_together_and_they_take_turns() -> None:
    dispatcher = Dispatcher(Ordering.UNORDERED, concurrency=3, queue_size=10)
    dispatcher.assign([FIRST, SECOND])
    dispatcher.add(FIRST, [record(n) for n in range(5)], 0.0)
    dispatcher.add(SECOND, [record(n, at=SECOND) for n in range(5)], 0.0)
    started = begin_all(dispatcher)
    assert [(w.record.partition, w.record.offset) for w in started] == [(0, 0), (1, 0), (0, 1)]


def test_a_failed_record_holds_its_lane_but_no_place_at_work() -> None:
    dispatcher = Dispatcher(Ordering.KEY, concurrency=1, queue_size=10)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(0, b"a"), record(1, b"a"), record(2, b"b")], 0.0)
    (failed,) = begin_all(dispatcher)
    dispatcher.retry(failed, due=5.0, now=0.0)
    assert dispatcher.next_due() == 5.0
    (other,) = begin_all(dispatcher)
    assert other.record.offset == 2
    finish(dispatcher, other)
    assert begin_all(dispatcher, now=4.9) == []
    (again,) = begin_all(dispatcher, now=5.0)
    assert again is failed
    assert again.attempts == 2


def test_records_that_are_not_due_wait() -> None:
    dispatcher = Dispatcher(
        Ordering.PARTITION, concurrency=4, queue_size=10, due_of=lambda r: float(r.offset)
    )
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(3), record(6)], 0.0)
    assert dispatcher.next_due() == 3.0
    assert begin_all(dispatcher, now=2.0) == []
    (work,) = begin_all(dispatcher, now=3.5)
    finish(dispatcher, work, 3.5)
    assert dispatcher.next_due() == 6.0


def test_a_partition_pauses_when_the_next_poll_might_not_fit() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=1, queue_size=4)
    dispatcher.assign([FIRST])
    assert dispatcher.poll_size == 2
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    assert dispatcher.pauses() == ([], [])
    dispatcher.add(FIRST, [record(2)], 0.0)
    assert dispatcher.pauses() == ([FIRST], [])
    before = dispatcher.has_room_again
    (work,) = begin_all(dispatcher)
    finish(dispatcher, work)
    assert (before, dispatcher.has_room_again) == (False, True)
    assert dispatcher.pauses() == ([], [FIRST])


def test_whole_batches_are_committed_in_batch_mode_and_parts_at_the_end() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=1, queue_size=10, whole_batches=True)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    (work,) = begin_all(dispatcher)
    finish(dispatcher, work)
    assert dispatcher.offsets() == {}
    (work,) = begin_all(dispatcher)
    finish(dispatcher, work)
    offsets = dispatcher.offsets()
    assert offsets[FIRST].offset == 2
    dispatcher.committed(offsets)
    assert dispatcher.offsets() == {}
    dispatcher.add(FIRST, [record(2), record(3)], 0.0)
    (work,) = begin_all(dispatcher)
    finish(dispatcher, work)
    assert dispatcher.offsets() == {}
    assert dispatcher.offsets(dispatcher.close())[FIRST].offset == 3


def test_a_record_of_an_earlier_assignment_does_not_count_for_the_next() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=2, queue_size=10)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    (slow,) = begin_all(dispatcher)
    (gone,) = dispatcher.revoke([FIRST])
    assert (gone.running, dispatcher.running) == (1, 1)
    dispatcher.assign([FIRST])
    dispatcher.add(FIRST, [record(0), record(1)], 0.0)
    finish(dispatcher, slow)
    assert dispatcher.offsets([gone])[FIRST].offset == 1
    assert dispatcher.offsets()[FIRST].offset == 0


def test_polled_records_of_a_partition_that_is_gone_are_left_alone() -> None:
    dispatcher = Dispatcher(Ordering.PARTITION, concurrency=2, queue_size=10)
    dispatcher.add(FIRST, [record(0)], 0.0)
    assert begin_all(dispatcher) == []


class Life:
    """A partition's log, what is committed, and listeners that come and go."""

    def __init__(self, seed: int, ordering: Ordering, queue_size: int, length: int) -> None:
        self.random = random.Random(seed)
        self.ordering = ordering
        self.queue_size = queue_size
        offset = 0
        self.log: list[ConsumerRecord] = []
        for _ in range(length):
            offset += self.random.choice([1, 1, 1, 2, 5])
            self.log.append(record(offset, self.random.choice([b"a", b"b", b"c", None])))
        self.committed = OffsetAndMetadata(0)
        self.finished: set[int] = set()
        """The offsets that were handled to their ends, by whomever."""
        self.now = 0.0

    def run(self) -> None:
        while self.committed.offset <= self.log[-1].offset:
            self.session()
            assert self.now < 100_000, "no progress"

    def session(self) -> None:
        """One assignment, until it is revoked, or the process dies."""
        dispatcher = Dispatcher(self.ordering, self.random.randint(1, 5), self.queue_size)
        dispatcher.assign([FIRST], {FIRST: self.committed})
        position = self.committed.offset
        running: list[Work] = []
        before = set(self.finished)
        finished: set[int] = set()
        paused = False
        for _ in range(self.random.randint(1, 200)):
            self.now += 1
            pause, resume = dispatcher.pauses()
            paused = (paused or bool(pause)) and not resume
            if not paused and self.random.random() < 0.5:
                batch = [r for r in self.log if r.offset >= position][: dispatcher.poll_size]
                if batch:
                    position = batch[-1].offset + 1
                    dispatcher.add(FIRST, batch, self.now)
            running += begin_all(dispatcher, self.now)
            self.check_lanes(running)
            if running and self.random.random() < 0.8:
                self.end_one(dispatcher, running, finished)
            self.commit(dispatcher, dispatcher.offsets(), position)
        assert len(before & finished) <= self.queue_size
        if self.random.random() < 0.5:
            # Revoked or stopped: what runs ends, what waits is forgotten, the rest is committed.
            gone = dispatcher.revoke([FIRST])
            while running:
                self.end_one(dispatcher, running, finished, fail=False)
            self.commit(dispatcher, dispatcher.offsets(gone), position)
            if position > self.committed.offset:
                ahead = {o for o in self.finished if o >= self.committed.offset}
                assert read_finished(self.committed) == ahead

    def check_lanes(self, running: list[Work]) -> None:
        lanes = [work.lane for work in running]
        assert len(set(lanes)) == len(lanes)
        if self.ordering is Ordering.PARTITION:
            assert len(running) <= 1

    def end_one(
        self, dispatcher: Dispatcher, running: list[Work], finished: set[int], fail: bool = True
    ) -> None:
        work = running.pop(self.random.randrange(len(running)))
        if fail and self.random.random() < 0.2:
            dispatcher.retry(work, self.now + self.random.randint(0, 5), self.now)
            return
        finished.add(work.record.offset)
        self.finished.add(work.record.offset)
        finish(dispatcher, work, self.now)

    def commit(
        self,
        dispatcher: Dispatcher,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        position: int,
    ) -> None:
        if FIRST in offsets:
            committed = offsets[FIRST]
            lost = [r for r in self.log if r.offset < committed.offset]
            assert {r.offset for r in lost} <= self.finished
            assert read_finished(committed) <= self.finished
            assert self.committed.offset <= committed.offset <= max(position, 0)
            self.committed = committed
            dispatcher.committed(offsets)


@pytest.mark.parametrize("ordering", Ordering)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), queue_size=st.integers(1, 12), length=st.integers(1, 40))
def test_nothing_is_lost_and_little_is_seen_again(
    ordering: Ordering, seed: int, queue_size: int, length: int
) -> None:
    life = Life(seed, ordering, queue_size, length)
    life.run()
    assert life.finished == {r.offset for r in life.log}

"""Parked fetches and appends: what wakes them, how often they answer, what they leave behind."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.support.partitions import (
    LOCAL,
    NOW_MS,
    PLENTY,
    SECOND,
    THIRD,
    append,
    batch,
    make_log,
    make_partition,
    state,
)

from moldau.errors import ErrorCode, KafkaError
from moldau.replication import ParkedFetch, ParkedProduce, Partition
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk

BATCH_SIZE = len(batch())


@dataclass
class Reader:
    """Reads its partitions as the fetch handler does, and notes when it answered."""

    clock: ManualClock
    partitions: Sequence[Partition]
    min_bytes: int
    follower_id: int = -1
    offset: int = 0
    attempts: int = 0
    answers: list[tuple[float, int, bool]] = field(default_factory=list)

    def read(self) -> int:
        size = 0
        for partition in self.partitions:
            try:
                read = partition.read(self.offset, PLENTY, follower_id=self.follower_id)
            except KafkaError:
                return self.min_bytes
            if read.records is not None:
                size += read.records.size
        return size

    def attempt(self, final: bool) -> int | None:
        self.attempts += 1
        size = self.read()
        if final or size >= self.min_bytes:
            self.answers.append((self.clock.monotonic(), size, final))
            return None
        return size

    def park(self, max_wait_ms: int = 500) -> ParkedFetch:
        return ParkedFetch(
            self.clock,
            self.partitions,
            min_bytes=self.min_bytes,
            available=self.read(),
            max_wait_ms=max_wait_ms,
            attempt=self.attempt,
            as_follower=self.follower_id >= 0,
        )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


# Fetch -------------------------------------------------------------------------------------------


def test_a_parked_fetch_does_nothing_until_its_time_is_up(clock: ManualClock) -> None:
    partition = make_partition()
    reader = Reader(clock, [partition], min_bytes=1)
    reader.park(max_wait_ms=500)
    clock.advance(0.499)
    assert reader.attempts == 0
    clock.advance(0.001)
    ((waited, size, timed_out),) = reader.answers
    assert waited == pytest.approx(0.5)
    assert (size, timed_out) == (0, True)
    assert (partition.parked, clock.pending) == (0, 0)


def test_an_append_wakes_a_parked_fetch_in_a_later_turn_and_once(clock: ManualClock) -> None:
    partition = make_partition()
    reader = Reader(clock, [partition], min_bytes=1)
    reader.park()
    append(partition)
    append(partition)
    assert reader.attempts == 0, "the append does not pay for its readers"
    clock.run_due()
    assert reader.answers == [(0.0, 2 * BATCH_SIZE, False)]
    append(partition)
    clock.advance(10)
    assert len(reader.answers) == 1
    assert (partition.parked, clock.pending) == (0, 0)


def test_every_step_of_the_high_watermark_wakes_a_parked_fetch(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition)
    append(partition)
    for offset in (0, 1):
        reader = Reader(clock, [partition], min_bytes=1, offset=offset)
        reader.park()
        partition.read(offset + 1, PLENTY, follower_id=SECOND)
        clock.run_due()
        assert reader.answers == [(0.0, BATCH_SIZE, False)]


def test_what_a_new_leader_had_as_a_follower_wakes_a_parked_fetch(clock: ManualClock) -> None:
    partition = Partition(LOCAL, make_log(), state(leader=SECOND, isr=(LOCAL, SECOND)))
    for offset in (0, 1):
        partition.append_as_follower(batch(base_offset=offset), 0, NOW_MS)
    partition.apply(state(epoch=1, isr=(LOCAL, SECOND)))
    for offset in (0, 1):
        reader = Reader(clock, [partition], min_bytes=1, offset=offset)
        reader.park()
        partition.read(offset + 1, PLENTY, follower_id=SECOND)
        clock.run_due()
        assert reader.answers == [(0.0, BATCH_SIZE, False)]


def test_a_parked_fetch_sleeps_on_until_min_bytes_have_gathered(clock: ManualClock) -> None:
    partition = make_partition()
    reader = Reader(clock, [partition], min_bytes=3 * BATCH_SIZE)
    append(partition)
    reader.park()
    append(partition)
    clock.run_due()
    assert reader.attempts == 0, "two batches are not three: nothing to look at"
    append(partition)
    clock.run_due()
    assert reader.answers == [(0.0, 3 * BATCH_SIZE, False)]


def test_min_bytes_are_gathered_over_all_partitions(clock: ManualClock) -> None:
    first, second = make_partition(), make_partition()
    reader = Reader(clock, [first, second], min_bytes=2 * BATCH_SIZE)
    reader.park()
    append(first)
    clock.run_due()
    assert reader.answers == []
    append(second)
    clock.run_due()
    assert reader.answers == [(0.0, 2 * BATCH_SIZE, False)]
    assert (first.parked, second.parked) == (0, 0)


def test_a_look_that_finds_too_little_goes_back_to_waiting(clock: ManualClock) -> None:
    """The announced size is a guess: open transactions, for one, make less of it readable."""
    partition = make_partition()
    answered: list[bool] = []
    seen = iter([0, None])

    def attempt(final: bool) -> int | None:
        result = next(seen)
        if result is None:
            answered.append(final)
        return result

    ParkedFetch(clock, [partition], min_bytes=1, available=0, max_wait_ms=500, attempt=attempt)
    append(partition)
    clock.run_due()
    assert answered == []
    assert partition.parked == 1
    append(partition)
    clock.run_due()
    assert answered == [False]
    assert partition.parked == 0


def test_a_consumer_wakes_when_the_high_watermark_moves_not_when_the_leader_appends(
    clock: ManualClock,
) -> None:
    partition = make_partition(LOCAL, SECOND)
    consumer = Reader(clock, [partition], min_bytes=1)
    follower = Reader(clock, [partition], min_bytes=1, follower_id=SECOND)
    consumer.park()
    follower.park()
    append(partition)
    clock.run_due()
    assert (consumer.attempts, len(follower.answers)) == (0, 1)
    partition.read(1, PLENTY, follower_id=SECOND)
    clock.run_due()
    assert consumer.answers == [(0.0, BATCH_SIZE, False)]


@pytest.mark.parametrize("pending_look", [False, True])
def test_losing_leadership_ends_a_parked_fetch_at_once(
    clock: ManualClock, pending_look: bool
) -> None:
    partition = make_partition()
    reader = Reader(clock, [partition], min_bytes=1)
    reader.park()
    if pending_look:
        append(partition)
    partition.apply(state(leader=SECOND, epoch=1))
    clock.run_due()
    assert len(reader.answers) == 1
    assert (partition.parked, clock.pending) == (0, 0)


def test_a_new_epoch_of_the_same_leader_ends_a_parked_fetch_even_while_it_looks(
    clock: ManualClock,
) -> None:
    partition = make_partition()
    reader = Reader(clock, [partition], min_bytes=PLENTY)
    parked = reader.park()
    parked.progress(PLENTY)
    partition.apply(state(epoch=1, partition_epoch=1))
    clock.run_due()
    assert reader.answers == [(0.0, 0, True)]
    assert partition.parked == 0


def test_a_failed_disk_ends_a_parked_fetch(clock: ManualClock) -> None:
    disk = MemoryDisk()
    partition = make_partition(disk=disk)
    reader = Reader(clock, [partition], min_bytes=1)
    reader.park()
    disk.fail(errno.ENOSPC, operations=frozenset({"append"}))
    with pytest.raises(KafkaError):
        append(partition)
    clock.run_due()
    assert reader.answers == [], "a full disk can be read"
    disk.fail(errno.EIO, operations=frozenset({"append"}))
    with pytest.raises(KafkaError):
        append(partition)
    clock.run_due()
    assert len(reader.answers) == 1


def test_a_cancelled_fetch_never_answers_and_is_forgotten(clock: ManualClock) -> None:
    first, second = make_partition(), make_partition()
    reader = Reader(clock, [first, second], min_bytes=1)
    parked = reader.park()
    append(first)  # a look is already on its way
    parked.cancel()
    append(second)
    clock.advance(10)
    assert reader.attempts == 0
    assert (first.parked, second.parked, clock.pending) == (0, 0, 0)


def test_cancelled_and_answered_fetches_are_not_kept_alive(clock: ManualClock) -> None:
    class Client:
        """Stands for the connection and everything that hangs on a request."""

        def attempt(self, final: bool) -> int | None:
            return None

    def park() -> tuple[ParkedFetch, weakref.ref[Client]]:
        client = Client()
        parked = ParkedFetch(
            clock, [partition], min_bytes=1, available=0, max_wait_ms=500, attempt=client.attempt
        )
        return parked, weakref.ref(client)

    partition = make_partition()
    cancelled, cancelled_client = park()
    answered, answered_client = park()
    cancelled.cancel()
    append(partition)
    clock.run_due()
    del cancelled, answered
    gc.collect()
    assert (cancelled_client(), answered_client()) == (None, None)


# Produce -----------------------------------------------------------------------------------------


@dataclass
class Answers:
    given: list[list[ErrorCode]] = field(default_factory=list)

    def __call__(self, codes: list[ErrorCode]) -> None:
        self.given.append(codes)


def park_produce(
    clock: ManualClock, *partitions: Partition, timeout_ms: int = 1000
) -> tuple[ParkedProduce, Answers]:
    answers = Answers()
    required = [(partition, append(partition)) for partition in partitions]
    return ParkedProduce(clock, required, timeout_ms=timeout_ms, answer=answers), answers


def test_an_append_is_acknowledged_when_the_whole_isr_has_it(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND, THIRD)
    _, answers = park_produce(clock, partition)
    partition.read(1, PLENTY, follower_id=SECOND)
    assert answers.given == []
    partition.read(1, PLENTY, follower_id=THIRD)
    assert answers.given == [[ErrorCode.NONE]]
    clock.advance(10)
    assert len(answers.given) == 1
    assert (partition.parked, clock.pending) == (0, 0)


def test_appends_behind_each_other_are_acknowledged_as_far_as_the_high_watermark(
    clock: ManualClock,
) -> None:
    partition = make_partition(LOCAL, SECOND)
    answers = [park_produce(clock, partition)[1] for _ in range(3)]
    partition.read(2, PLENTY, follower_id=SECOND)
    assert [len(one.given) for one in answers] == [1, 1, 0]
    partition.read(3, PLENTY, follower_id=SECOND)
    assert [len(one.given) for one in answers] == [1, 1, 1]


def test_a_request_waits_for_all_its_partitions(clock: ManualClock) -> None:
    first, second = make_partition(LOCAL, SECOND), make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, first, second)
    second.read(1, PLENTY, follower_id=SECOND)
    assert answers.given == []
    first.read(1, PLENTY, follower_id=SECOND)
    assert answers.given == [[ErrorCode.NONE, ErrorCode.NONE]]


def test_an_append_that_is_not_replicated_in_time_times_out(clock: ManualClock) -> None:
    done, slow = make_partition(LOCAL, SECOND), make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, done, slow, timeout_ms=1000)
    done.read(1, PLENTY, follower_id=SECOND)
    clock.advance(0.999)
    assert answers.given == []
    clock.advance(0.001)
    assert answers.given == [[ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]]
    assert (slow.parked, clock.pending) == (0, 0)
    slow.read(1, PLENTY, follower_id=SECOND)
    assert len(answers.given) == 1


def test_the_isr_may_shrink_below_the_minimum_while_an_append_waits(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND, min_insync_replicas=2)
    _, answers = park_produce(clock, partition)
    partition.apply(state(isr=(LOCAL,), partition_epoch=1))
    assert partition.high_watermark == 0
    assert answers.given == []
    partition.apply(state(isr=(LOCAL, THIRD), partition_epoch=2))
    partition.read(1, PLENTY, follower_id=THIRD)
    assert answers.given == [[ErrorCode.NONE]]


def test_an_append_is_not_vouched_for_that_too_few_replicas_keep(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND, min_insync_replicas=2)
    append(partition)
    partition.read(1, PLENTY, follower_id=SECOND)
    partition.apply(state(isr=(LOCAL,), partition_epoch=1))
    answers = Answers()
    ParkedProduce(clock, [(partition, 1)], timeout_ms=1000, answer=answers)
    assert answers.given == [[ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]]


def test_losing_leadership_answers_parked_appends(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, partition)
    partition.apply(state(leader=SECOND, epoch=1, isr=(SECOND, LOCAL)))
    assert answers.given == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert clock.pending == 0


def test_what_was_lost_with_the_leadership_stays_lost_when_it_comes_back(
    clock: ManualClock,
) -> None:
    moving, waiting = make_partition(LOCAL, SECOND), make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, moving, waiting)
    moving.apply(state(leader=SECOND, epoch=1, isr=(SECOND, LOCAL)))
    moving.apply(state(leader=LOCAL, epoch=2, isr=(LOCAL,)))
    assert moving.high_watermark == 1
    waiting.read(1, PLENTY, follower_id=SECOND)
    assert answers.given == [[ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]]


def test_a_new_epoch_of_the_same_leader_does_not_end_a_parked_append(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, partition)
    partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=1))
    assert answers.given == []
    partition.read(1, PLENTY, current_leader_epoch=1, follower_id=SECOND)
    assert answers.given == [[ErrorCode.NONE]]


def test_a_removed_partition_answers_parked_appends(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, partition)
    partition.resign()
    assert answers.given == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert partition.parked == 0


def test_a_failed_disk_answers_parked_appends(clock: ManualClock) -> None:
    disk = MemoryDisk()
    partition = make_partition(LOCAL, SECOND, disk=disk)
    _, answers = park_produce(clock, partition)
    disk.fail(errno.EIO, operations=frozenset({"append"}))
    with pytest.raises(KafkaError):
        append(partition)
    assert answers.given == [[ErrorCode.KAFKA_STORAGE_ERROR]]


def test_what_is_replicated_already_is_answered_without_waiting(clock: ManualClock) -> None:
    partition = make_partition(LOCAL)
    _, answers = park_produce(clock, partition)
    assert answers.given == [[ErrorCode.NONE]]
    assert (partition.parked, clock.pending) == (0, 0)


def test_a_partition_named_twice_is_answered_twice_in_one_answer(clock: ManualClock) -> None:
    partition = make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, partition, partition)
    partition.read(1, PLENTY, follower_id=SECOND)
    assert answers.given == []
    partition.read(2, PLENTY, follower_id=SECOND)
    assert answers.given == [[ErrorCode.NONE, ErrorCode.NONE]]


def test_a_cancelled_append_never_answers_and_is_forgotten(clock: ManualClock) -> None:
    first, second = make_partition(LOCAL, SECOND), make_partition(LOCAL, SECOND)
    parked, answers = park_produce(clock, first, second)
    first.read(1, PLENTY, follower_id=SECOND)
    parked.cancel()
    second.read(1, PLENTY, follower_id=SECOND)
    clock.advance(10)
    assert answers.given == []
    assert (first.parked, second.parked, clock.pending) == (0, 0, 0)
    assert second.log.log_end_offset == 1, "the append itself stands"


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_a_timeout_of_nothing_is_answered_in_the_next_turn(
    clock: ManualClock, timeout_ms: int
) -> None:
    partition = make_partition(LOCAL, SECOND)
    _, answers = park_produce(clock, partition, timeout_ms=timeout_ms)
    assert answers.given == []
    clock.run_due()
    assert answers.given == [[ErrorCode.REQUEST_TIMED_OUT]]

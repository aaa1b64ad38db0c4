"""Where a consumer is in a partition: what moves it, and what goes along with that."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from moldau.client.consumer.fetch.buffer import FetchBuffer
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.iteration import Iteration
from moldau.client.consumer.partition_state import (
    PREDECESSORS,
    BufferSpace,
    FetchState,
    PartitionState,
)
from moldau.client.consumer.position import Position
from moldau.client.consumer.records import ConsumerRecords
from moldau.client.consumer.reset import TO_EARLIEST
from moldau.model import TopicPartition
from moldau.records.builder import build_batch
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.record import Record

ZERO = TopicPartition("t", 0)

CHANGES: dict[FetchState, Callable[[PartitionState], object]] = {
    FetchState.AWAIT_RESET: lambda state: state.request_reset(TO_EARLIEST),
    FetchState.AWAIT_VALIDATION: lambda state: state.leader_changed(9),
    FetchState.FETCHING: lambda state: state.seek(Position(1)),
}


def new_state() -> PartitionState:
    return PartitionState(ZERO, BufferSpace(1_000_000))


def in_state(wanted: FetchState) -> PartitionState:
    state = new_state()
    if wanted is FetchState.AWAIT_RESET:
        state.request_reset(TO_EARLIEST)
    elif wanted is not FetchState.INITIALIZING:
        state.seek(Position(5, 3), 3)
        if wanted is FetchState.AWAIT_VALIDATION:
            assert state.leader_changed(4)
    assert state.fetch_state is wanted
    return state


@pytest.mark.parametrize("before", FetchState)
@pytest.mark.parametrize("after", FetchState)
def test_a_partition_goes_only_where_the_table_lets_it(
    before: FetchState, after: FetchState
) -> None:
    state = in_state(before)
    if before in PREDECESSORS[after]:
        CHANGES[after](state)
        assert state.fetch_state is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            state._become(after)


def test_only_a_newer_leader_is_asked_and_only_about_something() -> None:
    state = new_state()
    state.seek(Position(5))
    assert not state.leader_changed(3), "nothing was read yet that could be lost"
    state.taken_to = Position(6, 3)
    assert not state.leader_changed(3)
    assert state.leader_changed(4)
    assert not state.deliverable
    state.validated(Position(6, 3))
    assert state.deliverable


def test_paused_and_leaving_partitions_give_nothing() -> None:
    state = in_state(FetchState.FETCHING)
    before = state.deliverable
    state.paused = True
    paused = state.deliverable
    state.paused, state.pending_revocation = False, True
    assert (before, paused, state.deliverable) == (True, False, False)


class Reader:
    """One partition at offset 100 with ten records buffered, of leader epoch 3."""

    def __init__(self) -> None:
        self.space = BufferSpace(1_000_000)
        self.handover = Handover(self.space)
        self.buffer = FetchBuffer(self.space, self.handover)
        self.state = PartitionState(ZERO, self.space)
        self.state.seek(Position(100, 3), 3)
        self.add()

    @property
    def offset(self) -> int:
        assert self.state.position is not None
        return self.state.position.offset

    def add(self) -> None:
        first = self.state.fetch_from
        batch = build_batch(
            [Record(0, 0, None, b"%d" % (first + number)) for number in range(10)],
            base_offset=first,
            leader_epoch=3,
        )
        fetched = FetchedRecords(ZERO, first, memoryview(bytes(batch)))
        self.buffer.add(self.state, fetched, first + 10)

    def poll(self, limit: int) -> ConsumerRecords:
        self.handover.arrived()
        return ConsumerRecords(self.buffer.take(limit))

    def iterate(self, limit: int) -> Iteration:
        return Iteration(self.poll(limit), {ZERO: self.state})


JUMPS: dict[str, tuple[Callable[[PartitionState], None], Position | None]] = {
    "seek": (lambda state: state.seek(Position(7)), Position(7)),
    "reset": (lambda state: state.request_reset(TO_EARLIEST), None),
    "truncation": (lambda state: state.truncate(Position(90, 2)), Position(90, 2)),
    "revocation": (lambda state: state.close(), None),
}


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_takes_what_was_fetched_along(jump: str) -> None:
    reader = Reader()
    dropped: list[TopicPartition] = []
    reader.space.dropped = dropped.append
    reader.poll(2)
    state, version = reader.state, reader.state.version
    change, position = JUMPS[jump]
    change(state)
    assert state.position == position
    assert state.version != version
    assert (len(state.fetched), state.buffered, reader.space.used) == (0, 0, 0)
    assert reader.poll(10).count == 0
    assert dropped == [ZERO]


class WatchedLock:
    """Tells when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waited_for = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("jump", JUMPS)
def test_a_poll_in_another_thread_does_not_undo_a_jump(jump: str) -> None:
    """The loop learns of a truncation while the user's thread decodes records beyond it."""
    reader = Reader()
    lock = WatchedLock()
    reader.space.lock = lock  # type: ignore[assignment]
    change, position = JUMPS[jump]
    loop = threading.Thread(target=change, args=(reader.state,))

    def deserialize(records: list[ConsumerRecord]) -> int:
        if not lock.waited_for.is_set():
            loop.start()
            assert lock.waited_for.wait(150)
        return len(records)

    taken = reader.buffer.take(5, deserialize)
    loop.join()
    assert [record.offset for record in taken[ZERO]] == [100, 101, 102, 103, 104]
    assert reader.state.position == position, "not 105: that would be committed"
    assert reader.buffer.take(5) == {}, "nothing beyond comes after it"


def test_an_iteration_moves_the_position_record_by_record() -> None:
    reader = Reader()
    iteration = reader.iterate(3)
    assert reader.state.position == Position(100)
    records = iter(iteration)
    next(records)
    assert reader.state.position == Position(101, 3)
    assert iteration.unread({ZERO: reader.state}) == [reader.state]
    assert [record.offset for record in records] == [101, 102]
    assert reader.state.position == Position(103, 3)
    assert iteration.unread({ZERO: reader.state}) == []


def test_a_record_that_was_not_dealt_with_is_taken_back() -> None:
    reader = Reader()
    iteration = reader.iterate(1)
    offsets = []
    for record in iteration:
        offsets.append(record.offset)
        iteration.take_back(record)
    assert offsets == [100]
    assert reader.state.position == Position(100)


def test_an_iteration_ends_where_its_partition_is_moved_and_moves_it_no_more() -> None:
    reader = Reader()
    iteration = reader.iterate(3)
    records = iter(iteration)
    record = next(records)
    reader.state.seek(Position(7))
    iteration.take_back(record)
    assert list(records) == []
    assert reader.state.position == Position(7)
    assert iteration.unread({ZERO: reader.state}) == []


@pytest.mark.parametrize(("end", "offset"), [(90, 90), (101, 101), (104, 101)])
def test_what_was_polled_and_not_given_comes_again_after_a_truncation(
    end: int, offset: int
) -> None:
    reader = Reader()
    records = iter(reader.iterate(5))
    next(records)
    reader.state.truncate(Position(end, 2))
    assert reader.offset == offset
    assert list(records) == []


@pytest.mark.parametrize(("end", "offset"), [(90, 90), (103, 100)])
def test_what_is_lost_on_its_way_comes_again_as_far_as_a_truncation_left_it(
    end: int, offset: int
) -> None:
    reader = Reader()

    def interrupted_poll() -> None:
        with reader.handover.handing_out():
            reader.poll(5)
            reader.state.truncate(Position(end, 2))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_poll()
    assert reader.offset == offset

"""Records that were taken: lost ones are given again, and none count before they have arrived."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.consumer.async_consumer import AsyncConsumer
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.client.consumer.position import Position
from moldau.client.errors import WakeupError
from moldau.model import TopicPartition
from moldau.records.builder import build_batch
from moldau.records.record import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Consumer:
    """Positions, and what takes from them."""

    def __init__(self) -> None:
        space = BufferSpace(1_000_000)
        self.handover = Handover(space)
        self.states = {partition: PartitionState(partition, space) for partition in (A, B)}
        for state in self.states.values():
            state.seek(Position(0))

    @property
    def positions(self) -> dict[TopicPartition, Position | None]:
        return {partition: state.position for partition, state in self.states.items()}

    @property
    def reached(self) -> dict[TopicPartition, Position | None]:
        """What commits count."""
        return {key: self.handover.reached(state) for key, state in self.states.items()}

    def take(self, partition: TopicPartition, count: int) -> None:
        state = self.states[partition]
        self.handover.takes_from(state)
        assert state.taken_to is not None
        state.taken_to = Position(state.taken_to.offset + count)

    def poll(
        self, partition: TopicPartition, count: int, then: type[BaseException] | None = None
    ) -> None:
        with self.handover.handing_out():
            self.handover.arrived()
            self.take(partition, count)
            if then is not None:
                raise then

    def gather(self, then: type[BaseException]) -> None:
        with self.handover.handing_out():
            self.poll(A, 2)
            self.handover.gathering = True
            self.poll(A, 2)
            self.poll(B, 1)
            assert self.reached == {A: Position(0), B: Position(0)}
            raise then


def test_what_is_on_its_way_is_held() -> None:
    consumer = Consumer()
    consumer.poll(A, 3)
    assert consumer.reached == consumer.positions
    with consumer.handover.handing_out():
        consumer.handover.arrived()
        assert consumer.reached == consumer.positions
        consumer.take(A, 2)
        consumer.take(A, 2)
        assert (consumer.reached[A], consumer.positions[A]) == (Position(3), Position(7))
    assert consumer.reached == consumer.positions


@pytest.mark.parametrize("lost", [KeyboardInterrupt, ValueError])
def test_what_got_lost_comes_again_and_nothing_else(lost: type[BaseException]) -> None:
    consumer = Consumer()
    consumer.poll(A, 3)
    with pytest.raises(lost), consumer.handover.handing_out():
        raise lost  # nothing was taken: the last poll's records have arrived
    assert consumer.positions[A] == Position(3)
    with pytest.raises(lost):
        consumer.poll(A, 1, then=lost)
    assert consumer.positions == {A: Position(3), B: Position(0)}


def test_an_error_that_a_poll_raises_takes_nothing_back() -> None:
    consumer = Consumer()
    with pytest.raises(WakeupError):
        consumer.poll(A, 1, then=WakeupError)
    assert consumer.positions[A] == Position(1)


def test_a_batch_is_lost_as_a_whole() -> None:
    consumer = Consumer()
    with pytest.raises(KeyboardInterrupt):
        consumer.gather(then=KeyboardInterrupt)
    assert consumer.positions == {A: Position(0), B: Position(0)}
    assert consumer.handover.partitions == []


def test_a_result_that_is_interrupted_on_its_way_to_another_thread() -> None:
    consumer = Consumer()
    takes = consumer.handover.takes
    consumer.poll(A, 2)
    consumer.handover.rewind(takes)
    assert consumer.positions[A] == Position(0)
    takes = consumer.handover.takes
    consumer.handover.rewind(takes)
    assert consumer.positions[A] == Position(0)


async def test_no_poll_overtakes_records_that_have_to_come_again() -> None:
    """Ctrl-C strikes in the user's thread; positions go back in the loop's, a moment later."""
    consumer = AsyncConsumer(bootstrap_servers="nowhere")
    consumer.assign([A])
    core = consumer._core
    core._loop, core._changed_since_poll = asyncio.get_running_loop(), False
    core.subscription.state(A).seek(Position(0))
    batch = memoryview(bytes(build_batch([Record(0, 0, None, b"x")] * 4)))
    core.buffer.add(core.subscription.state(A), FetchedRecords(A, 0, batch), 4)
    takes = consumer.handover.takes
    assert consumer.poll_buffered(2) is not None
    consumer.handover.lost = True
    assert consumer.poll_buffered(2) is None
    consumer.handover.rewind(takes)
    assert core.subscription.state(A).position == Position(0)
    assert not consumer.handover.lost
    await consumer.close()


async def test_room_that_a_poll_in_another_thread_made_is_used() -> None:
    """It took the end of what was buffered, in which there was nothing for the user."""
    consumer = AsyncConsumer(bootstrap_servers="nowhere")
    consumer.assign([A])
    core = consumer._core
    core.subscription.state(A).seek(Position(0))
    steps: list[float] = []
    core.start = lambda: None  # type: ignore[method-assign]  # the background would step as well
    core.fetcher._short_of_room = True
    core.fetcher.step = steps.append  # type: ignore[assignment]
    assert not await consumer.poll(0)
    assert steps
    await consumer.close()

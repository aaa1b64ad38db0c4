"""Records that were taken: lost ones are given again, and none count before they have arrived."""

from __future__ import annotations

import pytest

from moldau.client.consumer.positions import Position
from moldau.client.consumer.taken import Taken
from moldau.client.errors import WakeupError
from moldau.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Consumer:
    """Positions, and what takes from them."""

    def __init__(self) -> None:
        self.positions = {A: Position(0), B: Position(0)}
        self.taken = Taken(self.positions.__setitem__)

    def take(self, partition: TopicPartition, count: int) -> None:
        before = self.positions[partition]
        self.taken.take(partition, before)
        self.positions[partition] = Position(before.offset + count)

    def poll(
        self, partition: TopicPartition, count: int, then: type[BaseException] | None = None
    ) -> None:
        with self.taken.handing_out():
            self.taken.arrived()
            self.take(partition, count)
            if then is not None:
                raise then

    def gather(self, then: type[BaseException]) -> None:
        with self.taken.handing_out():
            self.poll(A, 2)
            self.taken.gathering = True
            self.poll(A, 2)
            self.poll(B, 1)
            assert self.taken.held() == {A: Position(0), B: Position(0)}
            raise then


def test_what_is_on_its_way_is_held() -> None:
    consumer = Consumer()
    consumer.poll(A, 3)
    assert consumer.taken.held() == {}
    with consumer.taken.handing_out():
        consumer.taken.arrived()
        assert consumer.taken.held() == {}
        consumer.take(A, 2)
        consumer.take(A, 2)
        assert consumer.taken.held() == {A: Position(3)}
    assert consumer.taken.held() == {}


@pytest.mark.parametrize("lost", [KeyboardInterrupt, ValueError])
def test_what_got_lost_comes_again_and_nothing_else(lost: type[BaseException]) -> None:
    consumer = Consumer()
    consumer.poll(A, 3)
    with pytest.raises(lost), consumer.taken.handing_out():
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
    assert consumer.taken.partitions == []


def test_a_result_that_is_interrupted_on_its_way_to_another_thread() -> None:
    consumer = Consumer()
    takes = consumer.taken.takes
    consumer.poll(A, 2)
    consumer.taken.rewind(takes)
    assert consumer.positions[A] == Position(0)
    takes = consumer.taken.takes
    consumer.taken.rewind(takes)
    assert consumer.positions[A] == Position(0)

"""What was fetched and not polled yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.fetch.buffer import FetchBuffer
from moldau.client.consumer.fetch.fetched import Convert, FetchedRecords
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.client.consumer.position import Position
from moldau.client.errors import SerializationError
from moldau.model import TopicPartition
from moldau.records.builder import build_batch
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.record import Record

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


def fetched(partition: TopicPartition, first: int, count: int) -> FetchedRecords:
    records = [Record(0, 0, None, b"%d" % (first + number)) for number in range(count)]
    return FetchedRecords(
        partition, first, memoryview(bytes(build_batch(records, base_offset=first)))
    )


class Reader:
    """Partitions, and what takes from them as a consumer does."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.space = BufferSpace(limit)
        self.buffer = FetchBuffer(self.space, Handover(self.space))
        self.states = {partition: PartitionState(partition, self.space) for partition in PARTITIONS}
        for state in self.states.values():
            state.seek(Position(0))

    def add(self, partition: TopicPartition, count: int) -> None:
        state = self.states[partition]
        first = state.fetch_from
        self.buffer.add(state, fetched(partition, first, count), first + count)

    def take(self, limit: int, convert: Convert | None = None) -> dict[TopicPartition, list[int]]:
        taken = self.buffer.take(limit, convert)
        return {key: [record.offset for record in records] for key, records in taken.items()}

    def position(self, partition: TopicPartition) -> int:
        position = self.states[partition].position
        assert position is not None
        return position.offset


@given(
    st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(1, 6)), max_size=20),
    st.integers(1, 10),
)
def test_everything_comes_out_once_and_in_order(
    answers: list[tuple[TopicPartition, int]], limit: int
) -> None:
    reader = Reader()
    for partition, count in answers:
        reader.add(partition, count)
    ends = {partition: state.fetch_from for partition, state in reader.states.items()}
    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
    while taken := reader.take(limit):
        assert sum(map(len, taken.values())) <= limit
        for partition, offsets in taken.items():
            seen[partition] += offsets
            assert reader.position(partition) == offsets[-1] + 1
    assert seen == {partition: list(range(end)) for partition, end in ends.items()}
    assert reader.space.used == 0


def test_no_partition_waits_for_another() -> None:
    reader = Reader()
    for partition in PARTITIONS:
        reader.add(partition, 100)
    served = [next(iter(reader.take(10))) for _ in range(8)]
    assert served == [*PARTITIONS, *PARTITIONS]


def test_columns_take_turns_as_well() -> None:
    reader = Reader()
    for partition in PARTITIONS:
        reader.add(partition, 5)
        reader.add(partition, 5)
    served = [list(reader.buffer.take_columns(5)) for _ in range(8)]
    assert served == [[partition] for partition in (*PARTITIONS, *PARTITIONS)]
    assert reader.buffer.take_columns(5) == {}


def test_what_may_not_be_delivered_is_kept() -> None:
    reader = Reader()
    for partition in PARTITIONS[:2]:
        reader.add(partition, 2)
    reader.states[PARTITIONS[0]].paused = True
    assert reader.take(10) == {PARTITIONS[1]: [0, 1]}
    assert reader.take(10) == {}
    reader.states[PARTITIONS[0]].paused = False
    assert reader.take(10) == {PARTITIONS[0]: [0, 1]}


def test_room_is_what_is_not_taken() -> None:
    size = fetched(PARTITIONS[0], 0, 10).size
    reader = Reader(size + 5)
    reader.add(PARTITIONS[0], 10)
    assert (reader.space.left, reader.states[PARTITIONS[0]].buffered) == (5, size)
    reader.add(PARTITIONS[1], 10)
    assert reader.space.left == 0
    reader.states[PARTITIONS[0]].seek(Position(0))
    reader.states[PARTITIONS[1]].close()
    assert (reader.space.left, reader.space.used) == (size + 5, 0)
    assert reader.take(10) == {}


def test_a_failure_comes_after_the_records_before_it_and_stays() -> None:
    def refuse_3(records: list[ConsumerRecord]) -> int:
        for index, record in enumerate(records):
            if record.offset == 3:
                if index == 0:
                    raise SerializationError("number 3")
                return index
        return len(records)

    reader = Reader()
    reader.add(PARTITIONS[0], 10)
    reader.add(PARTITIONS[1], 2)
    assert reader.take(100, refuse_3) == {PARTITIONS[0]: [0, 1, 2]}
    for _ in range(2):
        with pytest.raises(SerializationError):
            reader.take(100, refuse_3)
    assert reader.position(PARTITIONS[0]) == 3
    reader.states[PARTITIONS[0]].seek(Position(20))
    assert reader.take(100, refuse_3) == {PARTITIONS[1]: [0, 1]}

"""What was fetched and not polled yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.fetch.buffer import FetchBuffer
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.consumer.positions import Position
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


class Taker:
    """Takes from a buffer as a consumer does and remembers positions."""

    def __init__(self, buffer: FetchBuffer) -> None:
        self.buffer = buffer
        self.positions: dict[TopicPartition, int] = {}
        self.blocked: set[TopicPartition] = set()

    def take(self, limit: int, convert: object = None) -> dict[TopicPartition, list[int]]:
        found = self.buffer.take(
            limit,
            lambda partition: partition not in self.blocked,
            self._consumed,
            convert,  # type: ignore[arg-type]
        )
        return {key: [record.offset for record in records] for key, records in found.items()}

    def _consumed(self, partition: TopicPartition, position: Position) -> None:
        self.positions[partition] = position.offset


@given(
    st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(1, 6)), max_size=20),
    st.integers(1, 10),
)
def test_everything_comes_out_once_and_in_order(
    answers: list[tuple[TopicPartition, int]], limit: int
) -> None:
    buffer = FetchBuffer(1_000_000)
    ends = dict.fromkeys(PARTITIONS, 0)
    for partition, count in answers:
        buffer.add(fetched(partition, ends[partition], count))
        ends[partition] += count
    taker = Taker(buffer)
    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
    while found := taker.take(limit):
        assert sum(map(len, found.values())) <= limit
        for partition, offsets in found.items():
            seen[partition] += offsets
            assert taker.positions[partition] == offsets[-1] + 1
    assert seen == {partition: list(range(end)) for partition, end in ends.items()}
    assert buffer.size == 0


def test_no_partition_waits_for_another() -> None:
    buffer = FetchBuffer(1_000_000)
    for partition in PARTITIONS:
        buffer.add(fetched(partition, 0, 100))
    taker = Taker(buffer)
    served = [next(iter(taker.take(10))) for _ in range(8)]
    assert served == [*PARTITIONS, *PARTITIONS]


def test_what_may_not_be_delivered_is_kept() -> None:
    buffer = FetchBuffer(1_000_000)
    for partition in PARTITIONS[:2]:
        buffer.add(fetched(partition, 0, 2))
    taker = Taker(buffer)
    taker.blocked = {PARTITIONS[0]}
    assert taker.take(10) == {PARTITIONS[1]: [0, 1]}
    assert taker.take(10) == {}
    taker.blocked = set()
    assert taker.take(10) == {PARTITIONS[0]: [0, 1]}


def test_room_is_what_is_not_taken() -> None:
    one = fetched(PARTITIONS[0], 0, 10)
    buffer = FetchBuffer(one.size + 5)
    buffer.add(one)
    assert (buffer.room, buffer.size_of(PARTITIONS[0])) == (5, one.size)
    buffer.add(fetched(PARTITIONS[1], 0, 10))
    assert buffer.room == 0
    buffer.drop(PARTITIONS[0])
    buffer.drop(PARTITIONS[1])
    assert (buffer.room, buffer.size) == (one.size + 5, 0)


def test_a_failure_comes_after_the_records_before_it_and_stays() -> None:
    def refuse_3(records: list[ConsumerRecord]) -> int:
        for index, record in enumerate(records):
            if record.offset == 3:
                if index == 0:
                    raise SerializationError("number 3")
                return index
        return len(records)

    buffer = FetchBuffer(1_000_000)
    buffer.add(fetched(PARTITIONS[0], 0, 10))
    buffer.add(fetched(PARTITIONS[1], 0, 2))
    taker = Taker(buffer)
    assert taker.take(100, refuse_3) == {PARTITIONS[0]: [0, 1, 2]}
    for _ in range(2):
        with pytest.raises(SerializationError):
            taker.take(100, refuse_3)
    assert taker.positions[PARTITIONS[0]] == 3
    buffer.drop(PARTITIONS[0])
    assert taker.take(100, refuse_3) == {PARTITIONS[1]: [0, 1]}

"""Batches fill, close, split, and tell every record where it went."""

import pytest

from moldau.client.batches import Batch, Delivery, PartitionQueue, Placed
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.compression import Compression
from moldau.records.reader import read_records

TARGET = TopicPartition("t", 3)


def queue(batch_size: int = 200) -> tuple[PartitionQueue, list[tuple[str, int]]]:
    closed: list[tuple[str, int]] = []
    made = PartitionQueue(
        TARGET,
        batch_size=batch_size,
        compression=Compression.NONE,
        level=None,
        on_close=lambda topic, partition: closed.append((topic, partition)),
    )
    return made, closed


def drain(source: PartitionQueue) -> list[Batch]:
    source.close_open()
    batches = []
    while (batch := source.next_ready()) is not None:
        batches.append(batch)
    return batches


async def test_a_full_batch_closes_and_the_record_starts_the_next() -> None:
    source, closed = queue(batch_size=200)
    flags = [source.append(5, None, b"x" * 60, ())[1] for _ in range(3)]
    assert flags == [False, True, True]
    assert closed == [TARGET, TARGET]
    sizes = [batch.count for batch in drain(source)]
    assert sizes == [1, 1, 1]


async def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    source, _ = queue(batch_size=100)
    source.append(5, None, b"small", ())
    source.append(5, None, b"x" * 500, ())
    assert [batch.count for batch in drain(source)] == [1, 1]


async def test_deliveries_tell_offset_and_time() -> None:
    source, _ = queue()
    first, _ = source.append(5, b"k", b"v", ())
    second, _ = source.append(6, None, None, (("h", b"1"),))
    (batch,) = drain(source)
    batch.done.set_result(Placed(100, -1))
    assert tuple(await first) == ("t", 3, 100, 5)
    assert tuple(await second) == ("t", 3, 101, 6)


async def test_the_brokers_time_wins_where_it_is_given() -> None:
    source, _ = queue()
    delivery, _ = source.append(5, None, b"v", ())
    drain(source)[0].done.set_result(Placed(0, 777))
    assert (await delivery).timestamp == 777


async def test_a_failed_batch_fails_each_of_its_records() -> None:
    source, _ = queue()
    deliveries = [source.append(5, None, b"v", ())[0] for _ in range(2)]
    drain(source)[0].done.set_exception(KafkaError(ErrorCode.INVALID_RECORD))
    for delivery in deliveries:
        with pytest.raises(KafkaError):
            await delivery


async def test_a_split_batch_keeps_records_order_and_places() -> None:
    source, _ = queue(batch_size=10_000)
    deliveries = [source.append(5, b"k", b"%d" % n, (("h", None),))[0] for n in range(5)]
    (batch,) = drain(source)
    batch.data = batch.builder.build()
    split = batch.halves(Compression.GZIP, None)
    parts = [read_records(half.builder.build()) for half in split]
    assert [[record.value for record in part] for part in parts] == [
        [b"0", b"1"],
        [b"2", b"3", b"4"],
    ]
    assert parts[0][0].headers == (("h", None),)
    batch.done.set_result(split)
    split.first.done.set_result(Placed(10, -1))
    split.second.done.set_result(Placed(50, -1))
    assert [(await delivery).offset for delivery in deliveries] == [10, 11, 50, 51, 52]


async def test_what_is_left_at_the_end_fails() -> None:
    source, _ = queue()
    delivery, _ = source.append(5, None, b"v", ())
    source.fail_all(KafkaError(ErrorCode.INVALID_REQUEST, "closed"))
    assert source.is_empty
    with pytest.raises(KafkaError, match="closed"):
        await delivery


def test_a_delivery_is_small() -> None:
    assert not hasattr(Delivery.__new__(Delivery), "__dict__")

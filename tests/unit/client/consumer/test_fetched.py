"""Which records of a fetched range a consumer sees, and where it goes on."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.batch import ATTRIBUTES_OFFSET, LAST_OFFSET_DELTA_OFFSET, write_crc
from moldau.records.builder import build_batch
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.control import ControlType, control_key
from moldau.records.record import Record


def batch(base: int, *values: bytes, producer_id: int = -1, transactional: bool = False) -> bytes:
    records = [Record(0, 0, None, value) for value in values]
    return bytes(
        build_batch(records, base_offset=base, producer_id=producer_id, transactional=transactional)
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    record = Record(0, 0, control_key(kind), b"\0\0\0\0\0\0")
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )


PARTITION = TopicPartition("t", 3)


def read_fetched(
    data: bytes, offset: int, aborted: Sequence[tuple[int, int]] | None = None, step: int = 1000
) -> tuple[list[ConsumerRecord], int]:
    """Everything, taken in steps."""
    fetched = FetchedRecords(PARTITION, offset, memoryview(data), aborted=aborted)
    records: list[ConsumerRecord] = []
    while found := fetched.take(step):
        assert len(found) <= step
        records += found
        assert fetched.position.offset > records[-1].offset
    return records, fetched.position.offset


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_before_the_offset_are_left_out() -> None:
    data = batch(0, b"a", b"b") + batch(2, b"c", b"d", b"e")
    records, after = read_fetched(data, 3)
    assert values(records) == [b"d", b"e"]
    assert after == 5


@given(st.lists(st.integers(1, 5), min_size=1), st.integers(1, 7), st.integers(0, 20))
def test_steps_make_no_difference(sizes: list[int], step: int, first: int) -> None:
    data, base = b"", 0
    for size in sizes:
        data += batch(base, *[b"%d" % (base + number) for number in range(size)])
        base += size
    records, after = read_fetched(data, first, step=step)
    assert [record.offset for record in records] == list(range(first, base))
    assert all(record.value == b"%d" % record.offset for record in records)
    assert after == max(base, first)


def test_a_record_says_where_it_came_from() -> None:
    record = Record(0, 1234, b"k", b"v", (("h", b"x"), ("h", None)))
    data = bytes(build_batch([record], base_offset=7, leader_epoch=5))
    fetched = FetchedRecords(PARTITION, 7, memoryview(data))
    (found,) = fetched.take(10)
    assert found == ConsumerRecord("t", 3, 7, 1234, 0, b"k", b"v", (("h", b"x"), ("h", None)), 5)
    assert fetched.position == (8, 5)


def test_offsets_that_compaction_left_out_are_passed() -> None:
    records = [Record(10, 0, b"a", b"1"), Record(14, 0, b"b", b"2")]
    data = build_batch(records, base_offset=10, keep_offsets=True)
    struct.pack_into(">i", data, LAST_OFFSET_DELTA_OFFSET, 9)
    write_crc(data, 0, len(data))
    found, after = read_fetched(bytes(data), 10)
    assert ([record.offset for record in found], after) == ([10, 14], 20)


def test_damage_is_an_error_that_stays() -> None:
    good, bad = batch(0, b"fine"), bytearray(batch(1, b"damaged"))
    bad[-2] ^= 1
    fetched = FetchedRecords(PARTITION, 0, memoryview(good + bad + batch(2, b"behind")))
    assert values(fetched.take(10)) == [b"fine"]
    for _ in range(2):
        with pytest.raises(KafkaError, match="t-3 cannot be read at offset 1") as caught:
            fetched.take(10)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert fetched.position.offset == 1
    unchecked = FetchedRecords(PARTITION, 1, memoryview(bytes(bad)), check_crcs=False)
    assert len(unchecked.take(10)) == 1


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not_loses_no_records(codec: int) -> None:
    strange = bytearray(batch(1, b"strange"))
    strange[ATTRIBUTES_OFFSET + 1] = codec
    write_crc(strange, 0, len(strange))
    data = memoryview(batch(0, b"fine") + strange + batch(2, b"behind"))
    records, columns = FetchedRecords(PARTITION, 0, data), FetchedRecords(PARTITION, 1, data)
    assert values(records.take(10)) == [b"fine"]
    for _ in range(2):
        with pytest.raises(KafkaError, match="t-3 cannot be read at offset 1") as caught:
            records.take(10)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        with pytest.raises(KafkaError, match="t-3 cannot be read at offset 1"):
            columns.take_columns()
    assert records.position.offset == columns.position.offset == 1


def test_columns_have_the_same_records() -> None:
    data = batch(0, b"a", b"b") + marker(2, 9, ControlType.COMMIT) + batch(3, b"c", b"d", b"e")
    fetched = FetchedRecords(PARTITION, 1, memoryview(data))
    first, second = fetched.take_columns(), fetched.take_columns()
    assert first is not None
    assert second is not None
    assert (first.offsets, first.values) == ([1], [b"b"])
    assert (second.offsets, second.values) == ([3, 4, 5], [b"c", b"d", b"e"])
    assert fetched.take_columns() is None
    assert fetched.position.offset == 6


@given(st.integers(0, 200))
def test_a_batch_that_is_cut_off_is_not_there_yet(size: int) -> None:
    first, second = batch(0, b"a"), batch(1, b"b" * 40)
    records, after = read_fetched((first + second)[:size], 0)
    complete = (size >= len(first)) + (size >= len(first) + len(second))
    assert (len(records), after) == (complete, complete)


def test_markers_are_not_shown_but_passed() -> None:
    data = batch(0, b"a", producer_id=9, transactional=True) + marker(1, 9, ControlType.COMMIT)
    records, after = read_fetched(data, 0)
    assert (values(records), after) == ([b"a"], 2)
    only_marker, after = read_fetched(marker(1, 9, ControlType.ABORT), 1)
    assert (only_marker, after) == ([], 2)


def test_aborted_transactions_are_hidden_and_nothing_else() -> None:
    data = b"".join(
        (
            batch(0, b"plain"),
            batch(1, b"aborted", producer_id=9, transactional=True),
            batch(2, b"committed", producer_id=8, transactional=True),
            batch(3, b"not in a transaction", producer_id=9),
            marker(4, 9, ControlType.ABORT),
            batch(5, b"next of the same", producer_id=9, transactional=True),
            marker(6, 9, ControlType.COMMIT),
            marker(7, 8, ControlType.COMMIT),
            batch(8, b"aborted again", producer_id=9, transactional=True),
            marker(9, 9, ControlType.ABORT),
        )
    )
    records, after = read_fetched(data, 0, aborted=[(9, 8), (9, 1)])
    assert values(records) == [
        b"plain",
        b"committed",
        b"not in a transaction",
        b"next of the same",
    ]
    assert after == 10
    everything, _ = read_fetched(data, 0)
    assert len(everything) == 6


def test_an_abort_that_began_earlier_still_counts() -> None:
    data = batch(5, b"rest", producer_id=9, transactional=True) + marker(6, 9, ControlType.ABORT)
    assert read_fetched(data, 5, aborted=[(9, 2)]) == ([], 7)

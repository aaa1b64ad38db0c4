"""Which records of a fetched range a reader sees."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.fetched import read_fetched
from moldau.records.builder import build_batch
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


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_before_the_offset_are_left_out() -> None:
    data = batch(0, b"a", b"b") + batch(2, b"c", b"d", b"e")
    records, after = read_fetched(data, 3)
    assert values(records) == [b"d", b"e"]
    assert after == 5


def test_reading_ends_where_it_is_told() -> None:
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d")
    records, after = read_fetched(data, 0, until=2)
    assert (values(records), after) == ([b"a", b"b"], 2)


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

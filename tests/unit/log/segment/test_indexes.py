"""Offset, time and transaction indexes."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.log.errors import CorruptIndexError
from moldau.log.segment import index_file
from moldau.log.segment.offset_index import OffsetIndex
from moldau.log.segment.time_index import TimeIndex
from moldau.log.segment.transaction_index import AbortedTransaction, TransactionIndex
from moldau.testing.disk import MemoryDisk

BASE = 1000
OFFSETS = "/data/t-0/00000000000000001000.index"
TIMES = "/data/t-0/00000000000000001000.timeindex"
TRANSACTIONS = "/data/t-0/00000000000000001000.txnindex"


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.makedirs("/data/t-0")
    return disk


def offset_index(disk: MemoryDisk, max_bytes: int = 10_485_760) -> OffsetIndex:
    return OffsetIndex(disk, OFFSETS, BASE, max_bytes)


def time_index(disk: MemoryDisk, max_bytes: int = 10_485_760) -> TimeIndex:
    return TimeIndex(disk, TIMES, BASE, max_bytes)


def test_offset_entries_have_eight_bytes(disk: MemoryDisk) -> None:
    index = offset_index(disk)
    index.append(1005, 4100)
    index.append(1010, 9000)
    index.seal()
    assert disk.read(OFFSETS) == struct.pack(">iiii", 5, 4100, 10, 9000)


def test_time_entries_have_twelve_bytes(disk: MemoryDisk) -> None:
    index = time_index(disk)
    index.maybe_append(1_700_000_000_000, 1005)
    index.seal()
    assert disk.read(TIMES) == struct.pack(">qi", 1_700_000_000_000, 5)


def test_an_empty_index_needs_no_file_until_it_is_sealed(disk: MemoryDisk) -> None:
    index = offset_index(disk)
    assert index.lookup(1500) == (BASE, 0)
    assert not disk.exists(OFFSETS)
    index.seal()
    assert disk.read(OFFSETS) == b""


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60),
    target=st.integers(900, 5000),
    in_memory=st.sampled_from([16, 64, 4096]),
)
def test_a_lookup_finds_the_last_entry_that_is_not_above(
    steps: list[tuple[int, int]], target: int, in_memory: int
) -> None:
    disk = new_disk()
    index_file_limit, index_file.IN_MEMORY_BYTES = index_file.IN_MEMORY_BYTES, in_memory  # type: ignore[misc]
    try:
        index = offset_index(disk)
        entries = [(BASE, 0)]
        for offset_step, position_step in steps:
            entries.append((entries[-1][0] + offset_step, entries[-1][1] + position_step))
            index.append(*entries[-1])
        wanted = [entry for entry in entries if entry[0] <= target]
        found = wanted[-1] if wanted else (BASE, 0)
        assert index.lookup(target) == found
        index.seal()
        again = offset_index(disk)
        again.load(log_size=10**9)
        assert again.lookup(target) == found
        assert again.entries() == entries[1:]
        assert disk.size(OFFSETS) == 8 * len(steps)
        again.truncate_to(target)
        assert again.entries() == [entry for entry in entries[1:] if entry[0] < target]
        again.append(10_000, 10**8)
        again.seal()
        assert disk.size(OFFSETS) == 8 * again.count
    finally:
        index_file.IN_MEMORY_BYTES = index_file_limit  # type: ignore[misc]


@given(
    steps=st.lists(st.tuples(st.integers(-3, 5), st.integers(1, 9)), max_size=40),
    target=st.integers(-5, 120),
    cut=st.integers(1000, 1400),
)
def test_time_entries_grow_and_are_found(
    steps: list[tuple[int, int]], target: int, cut: int
) -> None:
    disk = new_disk()
    index = time_index(disk)
    entries: list[tuple[int, int]] = []
    timestamp, offset = 0, BASE
    for time_step, offset_step in steps:
        timestamp, offset = max(timestamp + time_step, 0), offset + offset_step
        index.maybe_append(timestamp, offset)
        if timestamp > (entries[-1][0] if entries else -1):
            entries.append((timestamp, offset))
    assert index.entries() == entries
    below = [entry for entry in entries if entry[0] <= target]
    assert index.lookup(target) == (below[-1] if below else (-1, BASE))
    index.truncate_to(cut)
    kept = [entry for entry in entries if entry[1] < cut]
    assert index.entries() == kept
    assert index.last == (kept[-1] if kept else (-1, BASE))


def test_a_full_index_says_so(disk: MemoryDisk) -> None:
    offsets, times = offset_index(disk, 24), time_index(disk, 36)
    for number in range(1, 4):
        assert not offsets.is_full
        offsets.append(BASE + number, number)
    assert offsets.is_full
    # The time index keeps a slot for the entry that a roll adds.
    times.maybe_append(1, BASE)
    before = times.is_full
    times.maybe_append(2, BASE + 1)
    assert (before, times.is_full) == (False, True)
    times.maybe_append(3, BASE + 2)
    assert times.count == 3


def test_many_entries_are_mapped_and_cut_to_size_in_the_end(disk: MemoryDisk) -> None:
    index = offset_index(disk)
    for number in range(1, 2000):
        index.append(BASE + number, number * 10)
    assert disk.size(OFFSETS) > 2000 * 8
    assert disk.operations["map"] > 0
    index.seal()
    assert disk.size(OFFSETS) == 1999 * 8
    assert index.lookup(BASE + 1500) == (BASE + 1500, 15_000)


@pytest.mark.parametrize(
    ("content", "log_size"),
    [
        (b"1234567", 100),
        (struct.pack(">ii", 5, 200), 100),
        (struct.pack(">ii", -5, 10), 100),
        (struct.pack(">iiii", 5, 50, 0, 0), 100),
        (struct.pack(">ii", 5, 50) + bytes(10_000 * 8), 100),
    ],
    ids=["odd size", "past the log", "below the base", "zeros behind", "preallocated"],
)
def test_a_damaged_offset_index_is_noticed(disk: MemoryDisk, content: bytes, log_size: int) -> None:
    disk.write(OFFSETS, content)
    with pytest.raises(CorruptIndexError):
        offset_index(disk).load(log_size)


@pytest.mark.parametrize(
    "content", [b"123", struct.pack(">qiqi", 100, 5, 50, 6), struct.pack(">qiqi", 100, 5, 0, 0)]
)
def test_a_damaged_time_index_is_noticed(disk: MemoryDisk, content: bytes) -> None:
    disk.write(TIMES, content)
    with pytest.raises(CorruptIndexError):
        time_index(disk).load()


def test_aborted_transactions_are_kept_in_34_bytes_each(disk: MemoryDisk) -> None:
    index = TransactionIndex(disk, TRANSACTIONS)
    index.append(AbortedTransaction(7, 1001, 1005, 1006))
    index.append(AbortedTransaction(8, 1002, 1010, 1011))
    assert disk.read(TRANSACTIONS) == struct.pack(
        ">hqqqqhqqqq", 0, 7, 1001, 1005, 1006, 0, 8, 1002, 1010, 1011
    )
    again = TransactionIndex(disk, TRANSACTIONS)
    again.load(BASE)
    assert again.entries == index.entries


def test_aborted_transactions_are_found_by_overlap(disk: MemoryDisk) -> None:
    index = TransactionIndex(disk, TRANSACTIONS)
    first, second = AbortedTransaction(7, 1001, 1005, 1006), AbortedTransaction(8, 1010, 1020, 1021)
    index.append(first)
    index.append(second)
    found: list[AbortedTransaction] = []
    assert index.collect(1000, 1004, found)
    assert found == [first]
    found.clear()
    assert not index.collect(1006, 2000, found)
    assert found == [second]
    index.truncate_to(1020)
    assert index.entries == [first]
    assert disk.size(TRANSACTIONS) == 34


def test_a_damaged_transaction_index_is_noticed(disk: MemoryDisk) -> None:
    disk.write(TRANSACTIONS, b"123")
    with pytest.raises(CorruptIndexError):
        TransactionIndex(disk, TRANSACTIONS).load(BASE)
    disk.write(TRANSACTIONS, struct.pack(">hqqqq", 0, 7, 1, 5, 6))
    with pytest.raises(CorruptIndexError):
        TransactionIndex(disk, TRANSACTIONS).load(BASE)


def test_on_a_full_disk_an_aborted_transaction_is_known_and_written_later(
    disk: MemoryDisk,
) -> None:
    first = AbortedTransaction(7, 1001, 1005, 1006)
    second = AbortedTransaction(8, 1010, 1020, 1021)
    index = TransactionIndex(disk, TRANSACTIONS)
    index.append(first)
    disk.capacity = 34 + 10
    index.append(second)
    found: list[AbortedTransaction] = []
    index.collect(1000, 2000, found)
    assert found == [first, second], "readers must skip it although the file has no room"
    with pytest.raises(OSError, match="No space"):
        index.persist()
    assert index.dirty
    disk.capacity = None
    assert index.persist() == (True, True)
    again = TransactionIndex(disk, TRANSACTIONS)
    again.load(BASE)
    assert again.entries == [first, second], "no half of an entry is left in between"


def test_an_aborted_transaction_that_cannot_be_written_is_an_error(disk: MemoryDisk) -> None:
    index = TransactionIndex(disk, TRANSACTIONS)
    disk.fail(errno.EIO, operations=frozenset({"append"}))
    with pytest.raises(OSError, match="Input/output"):
        index.append(AbortedTransaction(8, 1010, 1020, 1021))


def test_aborted_transactions_that_were_not_synced_are_not_believed(disk: MemoryDisk) -> None:
    """A power cut may leave the size of a file and zeros in it."""
    index = TransactionIndex(disk, "/i.txnindex")
    for last in (5, 9):
        index.append(AbortedTransaction(1, last - 3, last, last))
    index.save()
    data = disk.read("/i.txnindex")
    disk.write("/i.txnindex", data + bytes(2 * len(data)))
    again = TransactionIndex(disk, "/i.txnindex")
    again.load_prefix(20)
    assert [entry.last_offset for entry in again.entries] == [5, 9]
    assert disk.size("/i.txnindex") == len(data)

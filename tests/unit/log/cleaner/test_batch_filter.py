"""What compaction leaves of a batch, and when tombstones and markers go (KIP-534)."""

from __future__ import annotations

import pytest

from moldau.log.cleaner.batch_filter import BatchFilter
from moldau.log.cleaner.messages import CleanStats, LastRecord
from moldau.log.cleaner.transactions import CleanedTransactions
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    crc_is_valid,
    patch_log_append_time,
    read_header,
)
from moldau.records.builder import build_batch
from moldau.records.compaction import KeyMap
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.reader import read_records
from moldau.records.record import Record

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
PRODUCER = 7


def data_batch(
    *records: tuple[bytes, bytes | None],
    base_offset: int = 10,
    transactional: bool = False,
    compression: int = Compression.NONE,
) -> bytes:
    content = [
        Record(0, NOW_MS - 100 + 10 * number, key, value)
        for number, (key, value) in enumerate(records)
    ]
    batch = build_batch(
        content,
        base_offset=base_offset,
        compression=compression,
        producer_id=PRODUCER,
        producer_epoch=3,
        base_sequence=40,
        transactional=transactional,
        leader_epoch=5,
    )
    return bytes(batch)


def marker(kind: ControlType, base_offset: int = 20) -> bytes:
    return bytes(
        build_end_txn_marker(
            kind,
            producer_id=PRODUCER,
            producer_epoch=3,
            coordinator_epoch=0,
            timestamp=NOW_MS - 50,
            base_offset=base_offset,
            leader_epoch=5,
        )
    )


def new_filter(
    replaced: dict[bytes, int] | None = None,
    *,
    now_ms: int = NOW_MS,
    last: LastRecord | None = None,
    upper_bound: int = 100,
    aborted: list[AbortedTransaction] | None = None,
) -> BatchFilter:
    keys = KeyMap(100, 100)
    for key, offset in (replaced or {}).items():
        keys.put(key, offset)
    keys.latest_offset = 99
    return BatchFilter(
        keys,
        CleanedTransactions(aborted or []),
        {} if last is None else {PRODUCER: last},
        upper_bound=upper_bound,
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        stats=CleanStats(),
    )


def apply(batch_filter: BatchFilter, batch: bytes) -> tuple[BatchHeader, list[Record], bytes]:
    kept = batch_filter.filter(read_header(batch), memoryview(batch))
    assert kept is not None
    data, max_timestamp = bytes(kept[0]), kept[1]
    header = read_header(data)
    assert crc_is_valid(data, 0, len(data))
    assert header.size == len(data)
    assert header.max_timestamp == max_timestamp
    return header, read_records(data), data


def is_gone(batch_filter: BatchFilter, batch: bytes) -> bool:
    return batch_filter.filter(read_header(batch), memoryview(batch)) is None


def test_a_batch_of_which_everything_stays_is_not_touched() -> None:
    batch = data_batch((b"a", b"1"), (b"b", b"2"))
    assert apply(new_filter({b"a": 10, b"b": 11}), batch)[2] == batch


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_of_which_some_records_stay_keeps_offsets_codec_and_sequence(codec: int) -> None:
    batch = data_batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), compression=codec)
    before = read_header(batch)
    after, records, _ = apply(new_filter({b"a": 50, b"c": 60}), batch)
    assert [(one.offset, one.key, one.timestamp) for one in records] == [(11, b"b", NOW_MS - 90)]
    assert after == before._replace(
        batch_length=after.batch_length,
        crc=after.crc,
        base_timestamp=NOW_MS - 90,
        max_timestamp=NOW_MS - 90,
        records_count=1,
    )


def test_a_batch_of_which_nothing_stays_goes() -> None:
    assert is_gone(new_filter({b"a": 50}), data_batch((b"a", b"1")))


@pytest.mark.parametrize(
    "batch_filter",
    [
        new_filter({b"a": 50}, last=LastRecord(3, 10)),
        new_filter({b"a": 50}, upper_bound=11),
    ],
    ids=["last of its producer", "last of the cleaning"],
)
def test_an_empty_header_stays_for_what_it_says(batch_filter: BatchFilter) -> None:
    batch = data_batch((b"a", b"1"), compression=Compression.GZIP)
    before = read_header(batch)
    after, records, _ = apply(batch_filter, batch)
    assert records == []
    assert after == before._replace(
        batch_length=49,
        crc=after.crc,
        attributes=0,
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )


def test_an_older_batch_of_an_active_producer_goes() -> None:
    assert is_gone(new_filter({b"a": 50}, last=LastRecord(3, 77)), data_batch((b"a", b"1")))


def test_a_tombstone_gets_its_time_first_and_goes_when_that_has_come() -> None:
    batch = data_batch((b"a", None), (b"b", b"2"))
    first, records, marked = apply(new_filter(), batch)
    assert first.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert [(one.timestamp, one.value) for one in records] == [
        (NOW_MS - 100, None),
        (NOW_MS - 90, b"2"),
    ]
    assert first.max_timestamp == NOW_MS - 90

    # A cleaning before that changes nothing, not even the time.
    early = new_filter(now_ms=NOW_MS + RETENTION_MS - 1)
    assert apply(early, marked)[2] == marked

    late = new_filter(now_ms=NOW_MS + RETENTION_MS)
    header, records, _ = apply(late, marked)
    assert [(one.offset, one.timestamp, one.value) for one in records] == [(11, NOW_MS - 90, b"2")]
    assert header.delete_horizon_ms == NOW_MS + RETENTION_MS


def test_a_tombstone_behind_what_the_map_knows_stays() -> None:
    keys_end_before = new_filter(now_ms=NOW_MS + 10**6)
    batch = data_batch((b"a", None), base_offset=200)
    header, records, _ = apply(keys_end_before, batch)
    assert len(records) == 1
    assert header.delete_horizon_ms == NOW_MS + 10**6 + RETENTION_MS


def test_log_append_time_survives() -> None:
    batch = bytearray(data_batch((b"a", None), (b"b", b"2"), (b"c", b"3")))
    patch_log_append_time(batch, 0, len(batch), NOW_MS - 5)
    header, records, _ = apply(new_filter({b"b": 50}), bytes(batch))
    assert header.timestamp_type == 1
    assert header.max_timestamp == NOW_MS - 5
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert [one.timestamp for one in records] == [NOW_MS - 5] * 2
    header, records, _ = apply(new_filter({b"a": 50, b"b": 50}), bytes(batch))
    assert header.base_timestamp == header.max_timestamp == records[0].timestamp == NOW_MS - 5


def test_the_records_of_an_aborted_transaction_go_and_its_marker_stays_with_the_index() -> None:
    aborted = AbortedTransaction(PRODUCER, 10, 20, 21)
    retained: list[AbortedTransaction] = []
    batch_filter = new_filter(aborted=[aborted])
    batch_filter._transactions.on_retained = retained.append
    assert is_gone(batch_filter, data_batch((b"a", b"1"), transactional=True))
    batch = marker(ControlType.ABORT)
    assert apply(batch_filter, batch)[2] == batch
    assert retained == [aborted]
    # The next transaction of the producer is another one.
    later = data_batch((b"a", b"1"), base_offset=30, transactional=True)
    assert apply(batch_filter, later)[2] == later


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_the_marker_of_a_transaction_without_data_gets_its_time_and_goes(
    kind: ControlType,
) -> None:
    aborted = [AbortedTransaction(PRODUCER, 10, 20, 21)] if kind is ControlType.ABORT else []
    batch = marker(kind)
    header, records, marked = apply(new_filter(aborted=aborted), batch)
    assert header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert header.is_control
    assert records == read_records(batch)
    late = NOW_MS + RETENTION_MS
    assert is_gone(new_filter(aborted=aborted, now_ms=late), marked)
    # It stays, empty, as long as it is the last sign of the producer's epoch.
    last = new_filter(aborted=aborted, now_ms=late, last=LastRecord(3, -1))
    header, records, empty = apply(last, marked)
    assert (records, header.is_control, header.producer_epoch) == ([], True, 3)
    assert header.delete_horizon_ms is None
    assert apply(new_filter(last=LastRecord(3, -1)), empty)[2] == empty
    assert is_gone(new_filter(last=LastRecord(4, -1)), empty)


def test_the_marker_of_a_committed_transaction_stays_with_its_data() -> None:
    batch_filter = new_filter(now_ms=NOW_MS + 10**6)
    batch = data_batch((b"a", b"1"), transactional=True)
    assert apply(batch_filter, batch)[2] == batch
    commit = marker(ControlType.COMMIT)
    assert apply(batch_filter, commit)[2] == commit

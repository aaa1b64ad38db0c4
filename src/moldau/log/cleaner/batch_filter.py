"""What compaction leaves of one batch: all of it, some records, an empty header, or nothing.

The rules are Kafka's. Offsets never change, and a batch keeps its first and last offset and its
sequence numbers however few of its records are left. Tombstones and the markers of empty
transactions get a delete horizon (KIP-534) when a cleaning first meets them: from then on the base
timestamp of the batch says when they may go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.log.cleaner.messages import CleanStats, LastRecord
from moldau.log.cleaner.transactions import CleanedTransactions
from moldau.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Buffer,
    write_crc,
)
from moldau.records.compaction import KeptRecords, KeyMap, keep_records, shift_timestamps
from moldau.records.compression import Compression, compress
from moldau.records.reader import read_payload

_KEPT_IN_EMPTY: Final = ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)


class BatchFilter:
    def __init__(
        self,
        keys: KeyMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        upper_bound: int,
        now_ms: int,
        delete_retention_ms: int,
        stats: CleanStats,
    ) -> None:
        self._keys = keys
        self._transactions = transactions
        self._last_records = last_records
        self._upper_bound = upper_bound
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._stats = stats

    def filter(self, header: BatchHeader, batch: memoryview) -> tuple[Buffer, int] | None:
        """Returns what stays of the batch, with its largest timestamp; None if nothing does."""
        obsolete = self._transactions.can_discard(header, batch)
        is_control = header.attributes & CONTROL_FLAG != 0
        horizon_ms = header.delete_horizon_ms
        expired = horizon_ms is not None and horizon_ms <= self._now_ms
        discard = obsolete and (expired or not is_control)
        stats = self._stats
        stats.records_read += header.records_count
        if not discard and header.records_count:
            payload = read_payload(batch, 0, header)
            if is_control:
                kept = _keep_marker(payload, header)
            else:
                kept = keep_records(
                    payload,
                    header.records_count,
                    header.base_offset,
                    self._keys,
                    keep_tombstones=not expired,
                )
            if kept.count:
                stats.records_written += kept.count
                needs_horizon = horizon_ms is None and (
                    kept.has_tombstone or (is_control and obsolete)
                )
                if kept.count == header.records_count and not needs_horizon:
                    return batch, header.max_timestamp
                return _rebuild(header, kept, self._horizon_ms if needs_horizon else None)
        if self._must_stay(header, is_control):
            return _empty(header), header.max_timestamp
        return None

    def _must_stay(self, header: BatchHeader, is_control: bool) -> bool:
        """Returns whether the batch stays even without records.

        The last batch of an active producer has its sequence number, or for a marker its epoch;
        the last batch of all that is cleaned has the last offset.
        """
        if header.producer_id >= 0:
            last = self._last_records.get(header.producer_id)
            if last is not None:
                if last.last_data_offset >= 0:
                    if header.last_offset == last.last_data_offset:
                        return True
                elif is_control and header.producer_epoch == last.epoch:
                    return True
        return header.next_offset == self._upper_bound


def _keep_marker(payload: bytes, header: BatchHeader) -> KeptRecords:
    kept = KeptRecords()
    kept.count = header.records_count
    # Its one record has the base timestamp of the batch, unless that is a delete horizon.
    kept.first_delta = kept.max_delta = header.max_timestamp - header.base_timestamp
    kept.parts.append(payload)
    return kept


def _rebuild(header: BatchHeader, kept: KeptRecords, horizon_ms: int | None) -> tuple[bytes, int]:
    """Returns the batch with the records that are kept, under its codec and around a base
    timestamp.

    That is a new delete horizon, the one there is, or else the time of the first record.
    """
    payload = b"".join(kept.parts)
    attributes = header.attributes
    append_time = attributes & TIMESTAMP_TYPE_FLAG != 0
    old_base = header.base_timestamp
    base, max_timestamp = old_base, old_base + kept.max_delta
    if append_time:
        max_timestamp = header.max_timestamp
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base = horizon_ms
    elif not attributes & DELETE_HORIZON_FLAG:
        base = max_timestamp if append_time else old_base + kept.first_delta
    if append_time:
        payload = shift_timestamps(payload, kept.count, max_timestamp - base, same=True)
    elif base != old_base:
        payload = shift_timestamps(payload, kept.count, old_base - base)
    codec = attributes & COMPRESSION_MASK
    if codec != Compression.NONE:
        payload = compress(codec, payload)
    rebuilt = header._replace(
        batch_length=HEADER_SIZE + len(payload) - LOG_OVERHEAD,
        attributes=attributes,
        base_timestamp=base,
        max_timestamp=max_timestamp,
        records_count=kept.count,
    )
    return _with_crc(rebuilt, payload), max_timestamp


def _empty(header: BatchHeader) -> bytes:
    """Returns the header alone, for the offsets and the sequence numbers in it."""
    empty = header._replace(
        batch_length=HEADER_SIZE - LOG_OVERHEAD,
        attributes=header.attributes & _KEPT_IN_EMPTY,
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )
    return _with_crc(empty, b"")


def _with_crc(header: BatchHeader, payload: bytes) -> bytes:
    batch = bytearray(HEADER.pack(*header))
    batch += payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)

"""Appending to a partition's log, as its leader or as a follower.

This is the hot path: one check of the batch, two fields patched in place, one write. The page cache
takes the write without blocking; making it durable is left to a flush.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import Final

from moldau.log.errors import StorageError, UnexpectedOffsetError
from moldau.log.partition.producer_state import AppendOrigin, BatchMetadata, apply_batch
from moldau.log.partition.readable_log import ReadableLog
from moldau.log.partition.results import AppendInfo
from moldau.log.partition.validation import check_batches
from moldau.log.segment.segment import Segment
from moldau.records.batch import LEADER_EPOCH_OFFSET, BatchHeader, iter_headers

_log = logging.getLogger(__name__)

_pack_offset = Struct(">q").pack_into
_pack_epoch = Struct(">i").pack_into
_make_header = BatchHeader._make

_CLIENT: Final = AppendOrigin.CLIENT


class AppendableLog(ReadableLog):
    """What produce requests and follower fetches need."""

    __slots__ = ()

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = _CLIENT,
    ) -> AppendInfo:
        """Append what a produce request holds for this partition, giving it offsets.

        ``records`` is written to: offset and epoch (and timestamps, if the topic says so) are
        patched in place. Raises KafkaError with Kafka's codes; after an IO error
        KAFKA_STORAGE_ERROR, and nothing of the failed append can ever be read.
        """
        if self._failure is not None:
            self._check_online()
        if origin is not _CLIENT:
            return self._append_own(records, leader_epoch, now_ms, origin)
        fields, records, max_timestamp, append_time = self._rules.check(records, now_ms)
        header = None
        if fields[9] >= 0:
            header = _make_header(fields)
            duplicate = self._check_producer(header)
            if duplicate is not None:
                return self._duplicate_info(duplicate)
        first = self.log_end_offset
        last = first + fields[6]
        size = len(records)
        _pack_offset(records, 0, first)
        _pack_epoch(records, LEADER_EPOCH_OFFSET, leader_epoch)
        segment = self._active
        position = segment.size
        if (
            position + size > self._segment_bytes
            or max_timestamp > self._roll_after
            or last > segment.max_offset
            or segment.full
        ):
            segment = self._maybe_roll(size, first, last, max_timestamp, now_ms)
            position = segment.size
        try:
            segment.append(records, last, max_timestamp, last)
        except Exception as error:
            raise self._append_failed(segment, position, error) from error
        self.log_end_offset = end = last + 1
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, first)
        if header is not None:
            self.producers.record_batch(header, first, max_timestamp)
        self.producers.end_offset = end
        self._remember(first, position)
        return AppendInfo(
            first,
            last,
            append_time,
            self.log_start_offset,
            False,
            size,
            end - self.recovery_point >= self._flush_messages,
        )

    def _check_producer(self, header: BatchHeader) -> BatchMetadata | None:
        entry = self.producers.producers.get(header.producer_id)
        if entry is None or (
            header.base_sequence == entry.last_sequence + 1
            and header.producer_epoch == entry.epoch
            and entry.txn_first_offset < 0
        ):
            return None
        return self.producers.check(header, _CLIENT)

    def _duplicate_info(self, duplicate: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            self.log_start_offset,
            True,
            0,
        )

    def _append_failed(self, segment: Segment, size: int, error: Exception) -> StorageError:
        """Nothing of a failed append may be served: cut the file back. The log goes offline, unless
        the disk is only full.
        """
        if not segment.is_open:
            return self._storage_error("append", error)
        if not isinstance(error, OSError):
            _log.exception("append to %s", self.topic_partition)
        try:
            segment.undo_append(size, self.log_end_offset)
        except OSError as second:
            # The bytes stay behind the end that readers and recovery know; the next start cuts
            # them off, because this log will not be closed cleanly.
            _log.exception("cannot cut %s back to %d bytes", segment.file.path, size)
            return self._failed("append", second)
        if isinstance(error, OSError):
            return self._storage_error("append", error)
        return self._failed("append", error)

    def _append_own(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> AppendInfo:
        """Append batches of a coordinator: several at once, control batches too."""
        self._rules.check_own(records)
        offset = self.log_end_offset
        batches = []
        for position, header in iter_headers(records, allow_partial_tail=False):
            if header.has_producer_id:
                self.producers.check(header, origin)
            largest = self._rules.stamp(records, position, header, now_ms)
            _pack_offset(records, position, offset)
            _pack_epoch(records, position + LEADER_EPOCH_OFFSET, leader_epoch)
            batches.append(
                header._replace(
                    base_offset=offset,
                    partition_leader_epoch=leader_epoch,
                    max_timestamp=largest,
                )
            )
            offset += header.last_offset_delta + 1
        append_time = now_ms if self._rules.log_append_time else -1
        return self._append_batches(records, batches, now_ms, append_time)

    def append_as_follower(self, records: memoryview, now_ms: int) -> AppendInfo:
        """Append the leader's batches as they are, offsets and epochs included."""
        self._check_online()
        check_batches(records)
        batches = [header for _, header in iter_headers(records)]
        size = sum(header.size for header in batches)
        if not batches:
            end = self.log_end_offset
            return AppendInfo(end, end - 1, -1, self.log_start_offset, False, 0)
        previous = self.log_end_offset - 1
        for header in batches:
            if header.base_offset <= previous:
                raise UnexpectedOffsetError(
                    f"{self.topic_partition}: batch at {header.base_offset} after {previous}",
                    batches[0].base_offset,
                    batches[-1].last_offset,
                )
            previous = header.last_offset
        return self._append_batches(records[:size], batches, now_ms, -1)

    def _append_batches(
        self,
        records: memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        append_time: int,
    ) -> AppendInfo:
        """Write batches that have their offsets, and take over what they say."""
        first, last = batches[0].base_offset, batches[-1].last_offset
        largest = max(batches, key=lambda header: header.max_timestamp)
        size = len(records)
        segment = self._maybe_roll(size, first, last, largest.max_timestamp, now_ms)
        position = segment.size
        try:
            segment.append(records, last, largest.max_timestamp, largest.last_offset)
        except Exception as error:
            raise self._append_failed(segment, position, error) from error
        if first != self.log_end_offset:
            self._forget_tail()
        self.log_end_offset = last + 1
        expected = first
        at = 0
        for header in batches:
            if header.base_offset != expected:
                self._forget_tail()
            expected = header.next_offset
            self._remember(header.base_offset, position + at)
            self._take_over(segment, header, records[at : at + header.size])
            at += header.size
        self.producers.end_offset = self.log_end_offset
        return AppendInfo(
            first,
            last,
            append_time,
            self.log_start_offset,
            False,
            size,
            self.log_end_offset - self.recovery_point >= self._flush_messages,
        )

    def _take_over(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.has_producer_id:
            aborted = apply_batch(self.producers, header, batch)
            if aborted is not None:
                try:
                    segment.add_aborted(aborted)
                except OSError as error:
                    # The data is in, the index is not: recovery will write it from the markers.
                    raise self._failed("transaction index", error) from error

    def assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        """Note that this broker leads from ``offset`` on with ``epoch``."""
        self.leader_epochs.assign(epoch, offset)

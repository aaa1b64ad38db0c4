"""Appending to a log, as its leader or as a follower.

This is the hot path: one check of the batch, two fields patched in place, one write. The page cache
takes the write without blocking; making it durable is left to a flush.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import Final

from crc32c import crc32c

from moldau.config.values.topic import TopicConfig
from moldau.errors import KafkaError
from moldau.log.errors import StorageError, UnexpectedOffsetError
from moldau.log.partition.budget import DecompressionBudget
from moldau.log.partition.health import LogHealth
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.offsets import LogOffsets
from moldau.log.partition.producer_state import (
    AppendOrigin,
    BatchMetadata,
    ProducerState,
    apply_batch,
)
from moldau.log.partition.results import AppendInfo
from moldau.log.partition.rolling import SegmentRoller
from moldau.log.partition.segments import LogSegments
from moldau.log.partition.validation import (
    BatchRules,
    CheckedBatch,
    stamped_now,
)
from moldau.log.segment.segment import MAX_RELATIVE_OFFSET, Segment
from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    LEADER_EPOCH_OFFSET,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    iter_headers,
)
from moldau.records.errors import CorruptRecordError

_log = logging.getLogger(__name__)

_pack_offset: Final = Struct(">q").pack_into
_pack_epoch: Final = Struct(">i").pack_into
_make_header: Final = BatchHeader._make

_CLIENT: Final = AppendOrigin.CLIENT

ANY_EPOCH: Final = 2**31 - 1
"""No leader epoch is later: of a copy, whose batches nobody doubts."""


class Appender:
    __slots__ = (
        "_flush_messages",
        "_health",
        "_leader_epochs",
        "_offsets",
        "_producers",
        "_roller",
        "_rules",
        "_segment_bytes",
        "_segments",
        "_tail",
    )

    def __init__(
        self,
        config: TopicConfig,
        offsets: LogOffsets,
        segments: LogSegments,
        roller: SegmentRoller,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        health: LogHealth,
    ) -> None:
        self._offsets = offsets
        self._segments = segments
        self._tail = segments.tail
        self._roller = roller
        self._leader_epochs = leader_epochs
        self._producers = producers
        self._health = health
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        self._rules = BatchRules(config)
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages

    @property
    def rules(self) -> BatchRules:
        return self._rules

    def append_as_leader(
        self,
        records: memoryview | CheckedBatch,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        budget: DecompressionBudget | None,
    ) -> AppendInfo:
        """See ``PartitionLog``."""
        if self._health.failure is not None:
            self._health.check()
        if isinstance(records, memoryview):
            if origin is not _CLIENT:
                return self._append_own(records, leader_epoch, now_ms, origin)
            fields, records, max_timestamp, append_time = self._rules.check(records, now_ms, budget)
        else:
            fields, records, max_timestamp, append_time = stamped_now(records, now_ms)
        header = None
        if fields[9] >= 0:
            header = _make_header(fields)
            duplicate = self._check_producer(header)
            if duplicate is not None:
                return self._duplicate_info(duplicate)
            if header.attributes & TRANSACTIONAL_FLAG:
                self._producers.check_transactional(header)
        offsets = self._offsets
        first = offsets.log_end_offset
        last = first + fields[6]
        size = len(records)
        _pack_offset(records, 0, first)
        _pack_epoch(records, LEADER_EPOCH_OFFSET, leader_epoch)
        segment = self._segments.active
        position = segment.size
        if (
            position + size > self._segment_bytes
            or max_timestamp > segment.roll_after
            or last > segment.max_offset
            or segment.full
        ):
            segment = self._roller.segment_for(size, first, last, max_timestamp, now_ms)
            position = segment.size
        try:
            segment.append(records, last, max_timestamp, last, first)
        except Exception as error:
            raise self._append_failed(segment, position, error) from error
        offsets.log_end_offset = end = last + 1
        if leader_epoch != self._leader_epochs.latest_epoch:
            self._leader_epochs.assign(leader_epoch, first)
        producers = self._producers
        if header is not None:
            producers.record_batch(header, first, max_timestamp)
        producers.end_offset = end
        self._tail.remember(first, position)
        return AppendInfo(
            first,
            last,
            append_time,
            offsets.log_start_offset,
            False,
            size,
            end - offsets.recovery_point >= self._flush_messages,
        )

    def _check_producer(self, header: BatchHeader) -> BatchMetadata | None:
        """Returns the earlier batch if this one is a duplicate."""
        entry = self._producers.producers.get(header.producer_id)
        if entry is None or (
            header.base_sequence == entry.last_sequence + 1
            and header.producer_epoch == entry.epoch
            and (entry.txn_first_offset < 0 or header.attributes & TRANSACTIONAL_FLAG)
        ):
            return None
        return self._producers.check(header, _CLIENT)

    def _duplicate_info(self, duplicate: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            self._offsets.log_start_offset,
            True,
            0,
        )

    def _append_failed(self, segment: Segment, size: int, error: Exception) -> StorageError:
        """Nothing of a failed append may be served: cut the file back. The log goes offline, unless
        the disk is only full.
        """
        health = self._health
        if not segment.is_open:
            return health.storage_error("append", error)
        if not isinstance(error, OSError):
            _log.exception("append to %s", segment.file.path)
        try:
            segment.undo_append(size, self._offsets.log_end_offset)
        except OSError as second:
            # The bytes stay behind the end that readers and recovery know; the next start cuts
            # them off, because this log will not be closed cleanly.
            _log.exception("cannot cut %s back to %d bytes", segment.file.path, size)
            return health.fatal_error("append", second)
        if isinstance(error, OSError):
            return health.storage_error("append", error)
        return health.fatal_error("append", error)

    def _append_own(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> AppendInfo:
        """Append batches of a coordinator: several at once, control batches too."""
        rules = self._rules
        rules.check_own(records)
        offset = self._offsets.log_end_offset
        batches = []
        for position, header in iter_headers(records, allow_partial_tail=False):
            if header.has_producer_id:
                self._producers.check(header, origin)
            largest = rules.stamp(records, position, header, now_ms)
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
        append_time = now_ms if rules.log_append_time else -1
        return self._append_batches(records, batches, now_ms, append_time, len(records))

    def append_as_follower(self, records: memoryview, now_ms: int, leader_epoch: int) -> AppendInfo:
        """See ``PartitionLog``."""
        self._health.check()
        offsets, limit = self._offsets, self._segment_bytes
        batches = self._good_batches(records, leader_epoch)
        if not batches:
            end = offsets.log_end_offset
            return AppendInfo(end, end - 1, -1, offsets.log_start_offset, False, 0)
        run: list[BatchHeader] = []
        start = size = 0
        has_gap = False
        for header in batches:
            # Batches that were in several segments of the leader may not fit into one of ours.
            if run and (
                size + header.size > limit
                or header.last_offset - run[0].base_offset > MAX_RELATIVE_OFFSET
            ):
                has_gap |= self._append_run(records[start : start + size], run, now_ms).has_gap
                start, size, run = start + size, 0, []
            run.append(header)
            size += header.size
        info = self._append_run(records[start : start + size], run, now_ms)
        info.first_offset = batches[0].base_offset
        info.size = start + size
        info.has_gap |= has_gap
        return info

    def _append_run(
        self, records: memoryview, batches: list[BatchHeader], now_ms: int
    ) -> AppendInfo:
        # The leader may have allowed for larger batches: what it has, its followers take.
        room = min(len(records), self._segment_bytes)
        return self._append_batches(records, batches, now_ms, -1, room)

    def _good_batches(self, records: memoryview, leader_epoch: int) -> list[BatchHeader]:
        """Returns the headers of those that continue the log, in one pass. Raises what is wrong
        with the first one; with a later one, when that comes again as the first.
        """
        good: list[BatchHeader] = []
        previous = self._offsets.log_end_offset - 1
        epoch = self._leader_epochs.latest_epoch if leader_epoch != ANY_EPOCH else NO_LEADER_EPOCH
        try:
            for position, header in iter_headers(records):
                if header.partition_leader_epoch > leader_epoch:
                    break
                if crc32c(records[position + ATTRIBUTES_OFFSET : position + header.size]) != (
                    header.crc
                ):
                    raise CorruptRecordError("the CRC of a record batch is wrong")
                if 0 <= header.partition_leader_epoch < epoch or header.last_offset_delta < 0:
                    raise CorruptRecordError(
                        f"a batch of {header.last_offset_delta + 1} offsets has leader epoch "
                        f"{header.partition_leader_epoch} after {epoch}"
                    )
                if header.base_offset <= previous:
                    raise UnexpectedOffsetError(
                        f"{self._segments.directory}: batch at {header.base_offset} "
                        f"after {previous}",
                        header.base_offset,
                        header.last_offset,
                    )
                good.append(header)
                previous = header.last_offset
                epoch = max(epoch, header.partition_leader_epoch)
        except KafkaError:
            if not good:
                raise
        return good

    def _append_batches(
        self,
        records: memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        append_time: int,
        room: int,
    ) -> AppendInfo:
        """Write batches that have their offsets, and take over what they say. ``room`` is what a
        segment has to have left for them.
        """
        offsets, tail = self._offsets, self._tail
        first, last = batches[0].base_offset, batches[-1].last_offset
        largest = max([header.max_timestamp for header in batches])
        size = len(records)
        segment = self._roller.segment_for(room, first, last, largest, now_ms)
        position = segment.size
        try:
            segment.append_batches(records, batches)
        except Exception as error:
            raise self._append_failed(segment, position, error) from error
        expected = offsets.log_end_offset
        offsets.log_end_offset = end = last + 1
        at = 0
        has_gap = False
        for header in batches:
            if header.base_offset != expected:
                has_gap = True
                tail.forget()
            expected = header.next_offset
            tail.remember(header.base_offset, position + at)
            self._take_over(segment, header, records[at : at + header.size])
            at += header.size
        self._producers.end_offset = end
        return AppendInfo(
            first,
            last,
            append_time,
            offsets.log_start_offset,
            False,
            size,
            end - offsets.recovery_point >= self._flush_messages,
            has_gap,
        )

    def _take_over(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        if header.partition_leader_epoch >= 0:
            self._leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.has_producer_id:
            aborted = apply_batch(self._producers, header, batch)
            if aborted is not None:
                # If it fails, the data is in and the index is not: recovery will write it from the
                # markers.
                with self._health.fatal_errors("transaction index"):
                    segment.add_aborted(aborted)

"""Rebuilding a coordinator from its log: every committed record replayed, in order.

The log is read in slices, and the event loop runs between them. What a transaction wrote is pending
until its marker comes, which may be after the end of what there is now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.coordinators.shard import Shard
from moldau.log import PartitionLog
from moldau.records.batch import BatchHeader, iter_headers
from moldau.records.control import ControlType, read_control_type
from moldau.records.reader import read_records
from moldau.records.record import Record


async def load(
    log: PartitionLog, shard: Shard, still_wanted: Callable[[], bool], slice_bytes: int
) -> int:
    """Replay what is in ``log`` now; returns the number of records. Stops when unwanted."""
    loader = _Loader(shard)
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end and still_wanted():
        batches = log.current.read(offset, slice_bytes, end)
        if batches is None:
            break
        following = loader.take(batches.read(), offset)
        if following <= offset:
            break  # a compacted tail: nothing at or after the offset
        offset = following
        await asyncio.sleep(0)
    return loader.count


class _Loader:
    """Replays batches, and tells the shard what is in transactions."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.count = 0

    def take(self, data: bytes, offset: int) -> int:
        """Replay the whole batches in ``data`` from ``offset`` on; returns the next offset."""
        for position, header in iter_headers(data):
            if header.last_offset < offset:
                continue
            offset = header.next_offset
            self._take_batch(header, read_records(data, position))
        return offset

    def _take_batch(self, header: BatchHeader, records: list[Record]) -> None:
        shard, producer_id = self._shard, header.producer_id
        if header.is_control:
            self._end_transaction(producer_id, records)
            return
        for record in records:
            if record.key is None:
                continue
            if header.is_transactional:
                shard.replay_pending(producer_id, record.key, record.value)
            else:
                shard.replay(record.key, record.value)
            self.count += 1

    def _end_transaction(self, producer_id: int, records: list[Record]) -> None:
        for marker in records:
            decision = read_control_type(marker.key)
            if decision in (ControlType.COMMIT, ControlType.ABORT):
                self._shard.replay_end(producer_id, commit=decision is ControlType.COMMIT)

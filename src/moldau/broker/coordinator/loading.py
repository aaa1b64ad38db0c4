"""Rebuilding a coordinator from its log: every committed record replayed, in order.

The log is read in slices, and the event loop runs between them. What a transaction wrote counts
from its commit marker on; what was aborted, or is still undecided at the end, does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.log import PartitionLog
from moldau.records.batch import BatchHeader, iter_headers
from moldau.records.control import ControlType, read_control_type
from moldau.records.reader import read_records
from moldau.records.record import Record

Replay = Callable[[bytes, bytes | None], None]


async def load(
    log: PartitionLog, replay: Replay, still_wanted: Callable[[], bool], slice_bytes: int
) -> int:
    """Replay what is in ``log`` now; returns the number of records. Stops when unwanted."""
    loader = _Loader(replay)
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end and still_wanted():
        records = log.current.read(offset, slice_bytes, end)
        if records is None:
            break
        following = loader.take(records.read(), offset)
        if following <= offset:
            break  # a compacted tail: nothing at or after the offset
        offset = following
        await asyncio.sleep(0)
    return loader.count


class _Loader:
    """Reads batches, keeps those of open transactions back."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._undecided: dict[int, list[Record]] = {}
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
        if header.is_control:
            self._end_transaction(header.producer_id, records)
        elif header.is_transactional:
            self._undecided.setdefault(header.producer_id, []).extend(records)
        else:
            self._replay_all(records)

    def _end_transaction(self, producer_id: int, records: list[Record]) -> None:
        for marker in records:
            decision = read_control_type(marker.key)
            if decision in (ControlType.COMMIT, ControlType.ABORT):
                written = self._undecided.pop(producer_id, [])
                if decision is ControlType.COMMIT:
                    self._replay_all(written)

    def _replay_all(self, records: list[Record]) -> None:
        for record in records:
            if record.key is not None:
                self._replay(record.key, record.value)
                self.count += 1

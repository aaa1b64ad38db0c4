"""From the bytes that a Fetch answered to the records that a reader wants to see.

A fetch answers whole batches, so the first may begin before the offset that was asked for and the
last may be cut off. Control batches are not for readers; with read_committed, neither are the
records of aborted transactions (KIP-98), which the broker names by producer id and first offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from moldau.records.batch import BatchHeader, Buffer, iter_headers
from moldau.records.control import ControlType, read_control_type
from moldau.records.reader import read_records
from moldau.records.record import Record


class AbortedTransactions:
    """Knows, batch by batch in log order, which producers are inside an aborted transaction."""

    __slots__ = ("_active", "_coming")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = deque(sorted(aborted, key=lambda entry: entry[1]))
        self._active: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        while self._coming and self._coming[0][1] <= header.last_offset:
            self._active.add(self._coming.popleft()[0])
        return header.is_transactional and header.producer_id in self._active

    def ended(self, header: BatchHeader, control_type: ControlType) -> None:
        """A marker closes its producer's transaction."""
        if control_type is ControlType.ABORT:
            self._active.discard(header.producer_id)


def read_fetched(
    data: Buffer,
    offset: int,
    *,
    until: int | None = None,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> tuple[list[Record], int]:
    """The records from ``offset`` on (and below ``until``), and the offset to go on from."""
    records: list[Record] = []
    transactions = AbortedTransactions(aborted or ())
    next_offset = offset
    for position, header in iter_headers(data):
        if header.last_offset < offset:
            continue
        next_offset = header.next_offset
        hidden = transactions.hides(header)
        if header.is_control:
            for marker in read_records(data, position):
                transactions.ended(header, read_control_type(marker.key))
        elif not hidden:
            records += read_records(data, position)
        if until is not None and next_offset >= until:
            break
    if records and records[0].offset < offset:
        records = [record for record in records if record.offset >= offset]
    if until is not None and records and records[-1].offset >= until:
        records = [record for record in records if record.offset < until]
    return records, next_offset if until is None else min(next_offset, max(until, offset))

"""Which batches belong to aborted transactions, and which markers have outlived their data.

The cleaner tells it every batch in the order of the log. A marker may go once a cleaning has met no
batch of its transaction any more; until then the aborted transaction stays in the index too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from moldau.records.control import ControlType, read_control_type
from moldau.records.reader import read_records


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_seen: set[int] = set()
        self._committed_seen: set[int] = set()
        self.on_retained: Callable[[AbortedTransaction], None] | None = None
        """Called with an aborted transaction whose marker stays because data of it was met."""

    def can_discard(self, header: BatchHeader, batch: memoryview) -> bool:
        """Returns whether the batch is of an aborted transaction, or a marker that has nothing to
        mark.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            transaction = self._coming.popleft()
            self._aborted.setdefault(transaction.producer_id, transaction)
        if header.attributes & CONTROL_FLAG:
            return self._can_discard_marker(header.producer_id, batch)
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        if header.producer_id in self._aborted:
            self._aborted_seen.add(header.producer_id)
            return True
        self._committed_seen.add(header.producer_id)
        return False

    def _can_discard_marker(self, producer_id: int, batch: memoryview) -> bool:
        records = read_records(batch, check_crc=False)
        if not records:
            return True  # emptied by an earlier cleaning
        kind = read_control_type(records[0].key)
        if kind is ControlType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._aborted_seen:
                return True
            self._aborted_seen.discard(producer_id)
            if self.on_retained is not None:
                self.on_retained(transaction)
            return False
        if kind is ControlType.COMMIT:
            if producer_id not in self._committed_seen:
                return True
            self._committed_seen.discard(producer_id)
        return False

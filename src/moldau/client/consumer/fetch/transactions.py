"""Which batches a read_committed consumer must not see (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from moldau.records.batch import BatchHeader
from moldau.records.control import ControlType


class AbortedTransactions:
    """Knows, batch by batch in log order, which producers are inside an aborted transaction.

    The broker names them with each answer: producer id and first offset.
    """

    __slots__ = ("_active", "_coming")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = deque(sorted(aborted, key=lambda entry: entry[1]))
        self._active: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Returns whether a data batch belongs to an aborted transaction."""
        while self._coming and self._coming[0][1] <= header.last_offset:
            self._active.add(self._coming.popleft()[0])
        return header.is_transactional and header.producer_id in self._active

    def ended(self, header: BatchHeader, control_type: ControlType) -> None:
        """A marker closes its producer's transaction."""
        if control_type is ControlType.ABORT:
            self._active.discard(header.producer_id)

"""Deadlines by key, without a clock.

Coordinators note here what must happen by when; whoever runs them asks for the earliest deadline,
sets one real timer, and comes back with the time. Setting a deadline anew replaces the old one, as
heartbeats do for every member several times a session, so that must be cheap: the old entry stays
in the heap and is skipped when it surfaces. When most of the heap is such leftovers it is rebuilt.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")

RETRY_MS = 500
"""When what a deadline asked for could not be written, it is tried again after this time."""

_SLACK = 64
"""How many leftovers are tolerated whatever the number of live deadlines."""


class Timeouts(Generic[K]):
    """Deadlines in milliseconds. Due keys come in the order of their deadlines."""

    __slots__ = ("_deadlines", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0
        """Tells apart two deadlines of one key, and keeps equal deadlines in the order they
        were set (so that keys are never compared)."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, at_ms: int) -> None:
        """Note a deadline; an earlier one under the same key is forgotten."""
        self._sequence += 1
        self._deadlines[key] = (at_ms, self._sequence)
        heappush(self._heap, (at_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._deadlines) + _SLACK:
            self._rebuild()

    def set_if_absent(self, key: K, at_ms: int) -> None:
        if key not in self._deadlines:
            self.set(key, at_ms)

    def cancel(self, key: K) -> bool:
        """Forget a deadline; say whether there was one."""
        return self._deadlines.pop(key, None) is not None

    def deadline(self, key: K) -> int | None:
        entry = self._deadlines.get(key)
        return None if entry is None else entry[0]

    def due(self, now_ms: int) -> list[K]:
        """Take out and return everything whose deadline has come."""
        keys: list[K] = []
        while (at_ms := self.next()) is not None and at_ms <= now_ms:
            key = heappop(self._heap)[2]
            del self._deadlines[key]
            keys.append(key)
        return keys

    def next(self) -> int | None:
        """The earliest deadline, if there is any."""
        heap = self._heap
        while heap:
            at_ms, sequence, key = heap[0]
            if self._deadlines.get(key) == (at_ms, sequence):
                return at_ms
            heappop(heap)
        return None

    def shift(self, by_ms: int) -> None:
        """The clock was set: all deadlines stay as far away as they were."""
        self._deadlines = {
            key: (at_ms + by_ms, sequence) for key, (at_ms, sequence) in self._deadlines.items()
        }
        self._rebuild()

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()

    def _rebuild(self) -> None:
        self._heap = [(at_ms, sequence, key) for key, (at_ms, sequence) in self._deadlines.items()]
        heapify(self._heap)

"""The places of the last batches of a log, so that those who follow its end need no index."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from moldau.log.segment.segment import Segment
from moldau.machine import FileSlice

_BATCHES: Final = 128
_NONE: Final = array("q")
"""Shared by all logs that nobody has appended to: most of ten thousand."""


class TailPositions:
    """Offsets and positions of batches at the end of the active segment, without gaps."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.offsets = self.positions = _NONE

    def remember(self, offset: int, position: int) -> None:
        offsets = self.offsets
        if offsets is _NONE:
            self.offsets, self.positions = array("q", (offset,)), array("q", (position,))
            return
        offsets.append(offset)
        self.positions.append(position)
        if len(offsets) > _BATCHES:
            del offsets[: _BATCHES // 2]
            del self.positions[: _BATCHES // 2]

    def locate(
        self, active: Segment, offset: int, max_bytes: int, upper: int | None, min_one_batch: bool
    ) -> FileSlice | None:
        """Returns where the batches from ``offset`` on lie, which is known here; ``upper`` is where
        they have to end, None for the end of the log.
        """
        offsets, positions = self.offsets, self.positions
        batch = bisect_right(offsets, offset) - 1
        position = positions[batch]
        limit = active.size if upper is None else positions[bisect_right(offsets, upper) - 1]
        size = limit - position
        if size > max_bytes:
            following = batch + 1
            after = positions[following] if following < len(positions) else active.size
            size = max(max_bytes, after - position)
            if size > max_bytes and not min_one_batch:
                return None
        if size <= 0:
            return None
        return FileSlice(active.file, position, size)

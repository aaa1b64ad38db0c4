"""What a cleaner process does with a task: from a message to reports, on any disk and clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from moldau.log.cleaner.compaction import Compaction
from moldau.log.cleaner.messages import (
    CleanDone,
    CleanFailed,
    CleanTask,
    GroupCleaned,
    Progress,
    Report,
)
from moldau.machine import Clock, Disk, Pause
from moldau.records.errors import CorruptRecordError, InvalidRecordError

_REPORT_S: Final = 1.0
_SHORTEST_PAUSE_S: Final = 0.001
"""A debt of less is paid with the next one; the default rate never makes more of it."""
_LOOK_BYTES: Final = 65_536

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(CleanTask).decode


def clean(disk: Disk, clock: Clock, message: bytes) -> Iterator[bytes | Pause]:
    """Compact one partition; yields encoded ``Report``s, and pauses where it would go too fast."""
    task = _decode(message)
    pace = Pace(task.max_bytes_per_second, clock)
    compaction = Compaction(disk, task)
    end: Report
    try:
        for step in compaction.run():
            if isinstance(step, GroupCleaned):
                yield _encode(step)
            elif pace.is_due(step):
                yield from pace.steps()
    except (CorruptRecordError, InvalidRecordError) as error:
        end = CleanFailed(str(error), corrupt=True)
    except OSError as error:
        end = CleanFailed(str(error), corrupt=False)
    else:
        end = CleanDone(compaction.end_offset, compaction.stats)
    yield _encode(end)


class Pace:
    """Says once a second that work goes on, and pauses where it went too fast."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._started = self._reported = clock.monotonic()
        self._bytes = 0
        self._look_after = 0

    def is_due(self, size: int) -> bool:
        """So many more bytes were read or written; returns whether to take the ``steps`` now."""
        self._bytes += size
        return self._bytes >= self._look_after

    def steps(self) -> Iterator[bytes | Pause]:
        self._look_after = self._bytes + _LOOK_BYTES
        while True:
            now = self._clock.monotonic()
            if now - self._reported >= _REPORT_S:
                self._reported = now
                yield _encode(Progress())
            ahead = self._started + self._bytes / self._rate - now
            if ahead < _SHORTEST_PAUSE_S:
                return
            yield Pause(min(ahead, _REPORT_S))

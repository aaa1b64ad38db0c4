"""Windows close in silence, too: when it has been quiet long enough, and where that is written.

Watermarks move with rows only. A source of its own reads the time here, and raises them
(``clock_source``).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.progress import CLOCK, Progress
from moldau.spark.pipeline.spec import Pipeline

IDLE_FILE: Final = "idle.json"


def clock_file(pipeline: Pipeline) -> Path | None:
    """Where the time is kept; None if windows do not close in silence."""
    if pipeline.trigger.idle is None:
        return None
    directory = checkpoint_directory(pipeline)
    if directory is None:
        # It begins anew with each run, which costs a batch.
        directory = Path(tempfile.gettempdir()) / f"moldau-pipeline-{pipeline.name}"
    return (directory / IDLE_FILE).absolute()


def write_clock(file: Path, moment: int) -> None:
    """Nothing from before this time, in milliseconds, is waited for any more."""
    file.parent.mkdir(parents=True, exist_ok=True)
    growing = file.with_name(f".{file.name}")
    growing.write_text(json.dumps({CLOCK: moment}), "utf-8")
    growing.replace(file)


class IdleClock:
    """Tells when it has been quiet long enough, from what the queries of a run report.

    After ``idle`` without records all that is older than that is complete: the time in the file
    follows the clock, so long behind it. A record that comes later than that is late, and counted.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        # A run that ends by itself reads what is there, and waits for nothing.
        self._file = None if pipeline.trigger.ends else clock_file(pipeline)
        self._idle = (pipeline.trigger.idle or 0) / 1000
        self._busy_at = time.monotonic()
        self._ticked_at: float | None = None
        self._last: dict[str, Progress] = {}

    def saw(self, progress: Progress) -> None:
        """A batch is done, or there was none for a while."""
        self._last[progress.sink] = progress
        if progress.rows:
            self._busy_at = time.monotonic()

    def look(self, queries: Iterable[Any]) -> None:
        """``queries``: all that run now; to be called now and then."""
        if self._file is None:
            return
        running = list(queries)
        now = time.monotonic()
        if any(_reads(query.status) for query in running):
            self._busy_at = now
        if len(self._last) < len(running) or not self._is_quiet(now) or not self._is_of_use():
            return
        self._ticked_at = now
        write_clock(self._file, int((time.time() - self._idle) * 1000))

    def _is_quiet(self, now: float) -> bool:
        since = max(self._busy_at, self._ticked_at or 0.0)
        # What was not read yet is no silence.
        caught_up = all(one.rows == 0 or one.lag == 0 for one in self._last.values())
        return caught_up and now - since >= self._idle

    def _is_of_use(self) -> bool:
        """Whether something may be open: after a start nobody knows."""
        if self._ticked_at is None or self._busy_at > self._ticked_at:
            return True
        return any(one.state_rows for one in self._last.values())


def _reads(status: Mapping[str, Any]) -> bool:
    """Whether a batch with records is under way, however long it takes."""
    return bool(status.get("isTriggerActive") and status.get("isDataAvailable"))

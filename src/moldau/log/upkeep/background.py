"""Work beside the requests: tasks that are waited for at the end, jobs that come round again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.machine.clock import Clock, Timer

_log = logging.getLogger(__name__)


class Background:
    """Tasks and timers that belong together and end together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Dictionaries, not sets: what happens to all of them happens in the order of their making.
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._timers: dict[Callable[[], None], Timer] = {}
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a task; an exception is logged, nothing else depends on it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[object]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background work failed", exc_info=error)

    def later(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start a task after a while."""
        if self._closed:
            return

        def fire() -> None:
            del self._timers[fire]
            self.spawn(work())

        self._timers[fire] = self._clock.call_later(seconds, fire)

    def every(
        self,
        seconds: float,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        first: float | None = None,
    ) -> None:
        """Run again and again, each time ``seconds`` after the last run has ended; the ``first``
        time may come earlier or later.
        """

        async def run() -> None:
            try:
                await work()
            finally:
                self.later(seconds, run)

        self.later(seconds if first is None else first, run)

    async def close(self) -> None:
        """No timer fires any more; running tasks are waited for, the oldest first."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._tasks:
            await asyncio.wait((next(iter(self._tasks)),))

"""Work in the background of a consumer: kept from being collected, and never failing silently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

logger: Final = logging.getLogger(__name__)


class Tasks:
    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], None] = {}
        """In the order of their start, in which they are called off."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    async def wait(self, within: float) -> None:
        """Until all are done, or the time is up."""
        if self._running:
            await asyncio.wait(self._running, timeout=within)

    async def cancel(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work in the background failed", exc_info=task.exception())

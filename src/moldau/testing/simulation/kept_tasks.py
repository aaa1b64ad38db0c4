"""Tasks that somebody holds until they are done.

asyncio itself does not: a task that nobody holds is collected, and its ``finally`` blocks run at a
moment that has nothing to do with the seed. After a kill they must not run at all, because a dead
process does nothing.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import logging
import warnings
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from moldau.testing.simulation.errors import ProcessEnded

_PRUNE_AT: Final = 256
_MOST_AWAITS: Final = 100
"""So often a coroutine may wait for something else instead of coming to its end."""


class KeptTasks:
    __slots__ = ("_prune_at", "_tasks")

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = _PRUNE_AT

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = max(_PRUNE_AT, 2 * len(self._tasks))

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what has not ended, for good; this is the end of the world.

        The loop is closed already, but a task still finds it: nothing else may take its place.
        """
        with _silence(), _running(loop):
            while self._tasks:
                tasks, self._tasks = self._tasks, []
                for task in tasks:
                    coroutine = task.get_coro()
                    if not task.done() and coroutine is not None:
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                        _end(coroutine)


@contextmanager
def _running(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    before = asyncio.events._get_running_loop()
    asyncio.events._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio.events._set_running_loop(before)


@contextmanager
def _silence() -> Iterator[None]:
    """Nobody hears what a program says that is cut short, or minds what it leaves half done."""
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _end(coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    # Not close(), which gives up on the inner ones as soon as one of them waits for something else.
    with suppress(BaseException):
        for _ in range(_MOST_AWAITS):
            coroutine.throw(ProcessEnded("the world has ended"))

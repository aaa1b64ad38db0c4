"""Tasks that somebody holds until they are done.

asyncio itself does not: a task that nobody holds is collected, and its ``finally`` blocks run at a
moment that has nothing to do with the seed. After a kill they must not run at all, because a dead
process does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

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

    def close(self) -> None:
        """End what has not ended, for good; this is the end of the world."""
        with _silence():
            while self._tasks:
                tasks, self._tasks = self._tasks, []
                for task in tasks:
                    coroutine = task.get_coro()
                    if not task.done() and coroutine is not None:
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                        _close(coroutine)


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


def _close(coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    for _ in range(_MOST_AWAITS):
        # RuntimeError: it does not end, but waits once more. Anything else was its last word.
        with suppress(BaseException):
            coroutine.close()
            return

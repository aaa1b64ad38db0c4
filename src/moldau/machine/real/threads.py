"""A pool of worker threads."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

WORKERS: Final = 4


class WorkerThreads:
    """The ``Threads`` of a process."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._workers = workers
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix="moldau-io")
        # As asyncio.to_thread does: callbacks of users find their context variables.
        work = partial(copy_context().run, function, *args, **kwargs)
        return await get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()

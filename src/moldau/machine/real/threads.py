"""Worker threads: a pool, and daemons that nobody waits for."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
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

    def daemons(self, most: int, name: str) -> Daemons:
        return Daemons(most, name)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()


class Daemons:
    """The ``DaemonThreads`` of a process: one more with each call that finds all of them busy."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._threads = 0
        self._busy = 0
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = get_running_loop()
        done: Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                _settle(loop, done, partial(done.set_exception, error))
            else:
                _settle(loop, done, partial(done.set_result, result))

        self._busy += 1
        if self._busy > self._threads and self._threads < self._most:
            self._threads += 1
            name = f"{self._name} {self._threads}"
            threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()
        self._jobs.put(job)
        try:
            return await done
        finally:
            self._busy -= 1

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


def _settle(loop: AbstractEventLoop, done: Future[T], how: Callable[[], None]) -> None:
    # A closed loop has ended without waiting for this call.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if done.cancelled() else how())

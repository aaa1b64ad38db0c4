"""Worker threads that are none: work runs in the loop, after a delay that is drawn."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from moldau.testing.simulation.loop import SimulatedHandle, SimulatedLoop

P = ParamSpec("P")
T = TypeVar("T")

WORKERS: Final = 4
"""As many as a real process has."""


class _Job:
    __slots__ = ("context", "result", "work")

    def __init__(self, work: Callable[[], Any], result: Future[Any]) -> None:
        self.work = work
        self.result = result
        self.context: Context = copy_context()

    def run(self) -> None:
        result = self.result
        try:
            value = self.work()
        except Exception as error:
            if not result.done():
                result.set_exception(error)
        else:
            if not result.done():
                result.set_result(value)


class SimulatedThreads:
    """A few workers. Each piece of work takes up to ``slowest`` seconds; those that run at once end
    in any order.

    Nobody waits for daemons, and nothing that they were given is called off.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        random: Random,
        slowest: Callable[[], float],
        workers: int = WORKERS,
        *,
        daemon: bool = False,
    ) -> None:
        self._loop = loop
        self._random = random
        self._slowest = slowest
        self._workers = workers
        self._daemon = daemon
        self._waiting: deque[_Job] = deque()
        self._running: dict[_Job, SimulatedHandle] = {}
        self._closed = False

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise RuntimeError("the worker threads are closed")
        result: Future[T] = self._loop.create_future()
        self._waiting.append(_Job(partial(function, *args, **kwargs), result))
        self._start_jobs()
        return await result

    def _start_jobs(self) -> None:
        while self._waiting and len(self._running) < self._workers:
            job = self._waiting.popleft()
            if not self._is_called_off(job):
                takes = self._random.random() * self._slowest()
                self._running[job] = self._loop.call_later(
                    takes, self._finish, job, context=job.context
                )

    def _is_called_off(self, job: _Job) -> bool:
        """Work that waits for its turn can be called off; work that has begun cannot."""
        return job.result.cancelled() and not self._daemon

    def _finish(self, job: _Job) -> None:
        del self._running[job]
        job.run()
        self._start_jobs()

    def daemons(self, most: int, name: str) -> SimulatedThreads:
        del name
        return SimulatedThreads(self._loop, self._random, self._slowest, most, daemon=True)

    def close(self) -> None:
        """Wait for what is running: when this returns, it has happened."""
        self._closed = True
        if self._daemon:
            return
        running, self._running = self._running, {}
        waiting, self._waiting = self._waiting, deque()
        for job, timer in running.items():
            timer.cancel()
            job.context.run(job.run)
        for job in waiting:
            if not self._is_called_off(job):
                job.context.run(job.run)

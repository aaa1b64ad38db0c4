"""Worker threads that are none: work runs in the loop, after a delay that is drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import ParamSpec, TypeVar

from moldau.testing.simulation.loop import SimulatedLoop

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedThreads:
    """Work takes up to ``slowest`` seconds; pieces of work that run at once end in any order."""

    def __init__(self, loop: SimulatedLoop, random: Random, slowest: Callable[[], float]) -> None:
        self._loop = loop
        self._random = random
        self._slowest = slowest

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: asyncio.Future[T] = self._loop.create_future()

        def work() -> None:
            # A thread that has begun cannot be called off, one that waits for its turn can.
            if result.cancelled() and self._random.random() < 0.5:
                return
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                if not result.done():
                    result.set_exception(error)
            else:
                if not result.done():
                    result.set_result(value)

        self._loop.call_later(self._random.random() * self._slowest(), work)
        return await result

    def daemons(self, most: int, name: str) -> SimulatedThreads:
        del most, name
        return self

    def close(self) -> None:
        return

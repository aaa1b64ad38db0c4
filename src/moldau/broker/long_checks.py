"""What would hold up the event loop: looking at batches whose records decompress to much.

It goes to a thread, a few at a time, so that threads are left for everything else and the memory
that a decoder takes is taken a few times only. The connection waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from moldau.machine.threads import RunInThread

AT_ONCE: Final = 2

P = ParamSpec("P")
T = TypeVar("T")


class LongChecks:
    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what the function does, once there is a place for it."""
        async with self._places:
            return await self._run_in_thread(function, *args, **kwargs)

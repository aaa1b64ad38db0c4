"""Child processes that are functions on the event loop.

    processes = LoopProcesses(clock, {"my.worker": work})
    child = await processes.start("my.worker")

``work`` is a ``ChildProgram``: it gets one message after the other and yields messages and pauses.
It advances when the parent receives, a step in each turn of the loop (or after ``step_s`` seconds),
until it is killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from moldau.machine import ChildProgram, Clock, Pause

_KILLED: Final = -9

_log = logging.getLogger(__name__)


def _at_once() -> float:
    return 0.0


class LoopProcess:
    """A ``ChildProcess`` without a process."""

    def __init__(
        self, clock: Clock, program: ChildProgram, pid: int, step_s: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._step_s = step_s
        self._program = program
        self._pid = pid
        self._messages: deque[bytes] = deque()
        self._steps: Iterator[bytes | Pause] = iter(())
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        """There is a message, or the process has ended."""

    @property
    def is_running(self) -> bool:
        return not self._exit_code.done()

    @property
    def pid(self) -> int:
        return self._pid

    async def send(self, message: bytes) -> None:
        if self._exit_code.done():
            raise BrokenPipeError(f"process {self._pid} has ended")
        self._messages.append(message)
        self._news.set()

    async def receive(self) -> bytes:
        while True:
            await asyncio.sleep(self._step_s())
            if self._exit_code.done():
                raise EOFError(f"process {self._pid} has ended")
            try:
                step = next(self._steps, None)
            except Exception:  # it is the child's, and ends the child
                _log.exception("process %d fails", self._pid)
                self._end(1)
                continue
            if isinstance(step, bytes):
                return step
            if step is not None:
                await self._sleep(step.seconds)
            elif self._messages:
                self._steps = self._program(self._messages.popleft())
            else:
                self._news.clear()
                await self._news.wait()

    async def _sleep(self, seconds: float) -> None:
        """Return when the time is over, or the process."""
        over = asyncio.Event()
        timer = self._clock.call_later(seconds, over.set)
        self._exit_code.add_done_callback(lambda _: over.set())
        try:
            await over.wait()
        finally:
            timer.cancel()

    def end_input(self) -> None:
        self._end(0)

    def kill(self) -> None:
        self._end(_KILLED)

    def _end(self, exit_code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(exit_code)
            self._news.set()

    async def wait(self) -> int:
        return await asyncio.shield(self._exit_code)


class LoopProcesses:
    """``Processes`` that runs programs by the names of their modules."""

    def __init__(
        self,
        clock: Clock,
        programs: Mapping[str, ChildProgram],
        step_s: Callable[[], float] = _at_once,
    ) -> None:
        self._clock = clock
        self._programs = programs
        self._step_s = step_s
        self._pids = count(1)
        self._children: list[LoopProcess] = []

    @property
    def running(self) -> list[LoopProcess]:
        """The children that have not ended."""
        self._children = [child for child in self._children if child.is_running]
        return self._children

    async def start(self, module: str) -> LoopProcess:
        program = self._programs.get(module)
        if program is None:
            raise FileNotFoundError(f"there is no program {module} here")
        child = LoopProcess(self._clock, program, next(self._pids), self._step_s)
        self._children = [*self.running, child]
        return child

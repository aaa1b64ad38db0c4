"""One process that starts others, restarts what dies, and leaves nothing behind.

Every child is a session of its own, so that Ctrl-C in a terminal reaches the supervisor alone,
which ends the others in order. Every stage has a pipe, whose reading end its children watch
(``MOLDAU_LIFELINE_FD``) and whose writing end the supervisor and all children of later stages hold:
killed, however, the supervisor takes them along, and still those first that need the others.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple

from moldau.cli.exit_codes import CommandError
from moldau.cli.output import say, tell

READY: Final = "moldau ready: "
DELAYS: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before the first, the second, ... restart in a row."""
LASTED_S: Final = 30.0
"""Who ran for so long starts with the first delay again."""
STOPS_WITHIN_S: Final = 60.0
"""Then a child that was asked to stop is killed."""
_LINES_KEPT: Final = 5
_LONGEST_LINE: Final = 1 << 20


class Program(NamedTuple):
    name: str
    command: tuple[str, ...]


class Restarts:
    """How long to wait before a child that has died is started again."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def delay_after(self, lasted_s: float) -> float:
        self._in_a_row = 0 if lasted_s >= LASTED_S else self._in_a_row
        delay = DELAYS[min(self._in_a_row, len(DELAYS) - 1)]
        self._in_a_row += 1
        return delay


class Lifeline(NamedTuple):
    """What the children of a stage are given: they end when nobody holds the other end of
    ``watched``, and hold those of the stages before theirs."""

    watched: int
    held: tuple[int, ...]


class Child:
    """One program, and the process that runs it now."""

    def __init__(self, program: Program, lifeline: Lifeline) -> None:
        self.program = program
        self.ready = asyncio.Event()
        """Set when it was ready for the first time."""
        self._lifeline = lifeline
        self._process: Process | None = None
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._restarts = Restarts()
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def keep(self) -> None:
        """Run it until it is stopped; CommandError if it ends without ever being ready."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._run()
            if self._stopping.is_set():
                return
            ended = _how_it_ended(code)
            if not self.ready.is_set():
                why = self._last_lines[-1].removeprefix("moldau: ") if self._last_lines else ended
                raise CommandError(f"{self.program.name} does not start: {why}")
            delay = self._restarts.delay_after(loop.time() - began)
            say(f"{self.program.name} {ended}; it is started again in {delay:g} s.")
            await asyncio.sleep(delay)

    async def _run(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self.program.command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,
            pass_fds=(*self._lifeline.held, self._lifeline.watched),
            env={**os.environ, "MOLDAU_LIFELINE_FD": str(self._lifeline.watched)},
        )
        try:
            if self._stopping.is_set():
                process.terminate()  # it was asked to stop while it was being made
            assert process.stdout is not None
            assert process.stderr is not None
            await asyncio.gather(
                _each_line(process.stdout, self._said), _each_line(process.stderr, self._logged)
            )
            return await process.wait()
        finally:
            self._process = None

    def _said(self, line: str) -> None:
        if line.startswith(READY):
            if self.ready.is_set():
                tell(f"moldau: {self.program.name} is back.")
            self.ready.set()

    def _logged(self, line: str) -> None:
        self._last_lines.append(line)
        if self.ready.is_set() or not line.startswith("moldau: "):
            tell(f"{self.program.name}: {line}")

    def stop(self) -> None:
        """Ask it to stop, and start it no more."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()


async def _each_line(stream: asyncio.StreamReader, take: Callable[[str], object]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue  # longer than any line of a log
        if not line:
            return
        take(line.decode(errors="replace").rstrip("\n"))


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


class Supervisor:
    """Runs stages of programs: those of a later stage need those before them."""

    def __init__(self, stages: Sequence[Sequence[Program]], held: tuple[int, ...] = ()) -> None:
        """``held``: descriptors that all children are given."""
        self._stages = stages
        self._held = held
        self._running: list[list[tuple[Child, asyncio.Task[None]]]] = []
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self, on_ready: Callable[[], object]) -> None:
        """Start everything, keep it running until SIGTERM or SIGINT, then end it, last first."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        pipes = [os.pipe() for _ in self._stages]
        try:
            if await self._start_all(pipes):
                on_ready()
                await self._watch(self._stop.wait())
        finally:
            await self._end_all()
            for descriptor in chain.from_iterable(pipes):
                os.close(descriptor)

    def _asked_to_stop(self) -> None:
        """The first time politely."""
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def _start_all(self, pipes: Sequence[tuple[int, int]]) -> bool:
        """Returns whether all are ready: somebody may want them to stop before."""
        loop = asyncio.get_running_loop()
        held = self._held
        for programs, (read_end, write_end) in zip(self._stages, pipes, strict=True):
            lifeline = Lifeline(read_end, held)
            held += (write_end,)
            children = [Child(program, lifeline) for program in programs]
            self._running.append([(child, loop.create_task(child.keep())) for child in children])
            for child in children:
                await self._watch(child.ready.wait(), self._stop.wait())
                if self._stop.is_set():
                    return False
        return True

    async def _watch(self, *events: Coroutine[Any, Any, object]) -> None:
        """Wait for one of these; a child that cannot be kept running ends the waiting."""
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Task[Any]] = [loop.create_task(event) for event in events]
        keeping = [task for stage in self._running for _, task in stage]
        try:
            done, _ = await asyncio.wait([*waiting, *keeping], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for future in waiting:
                future.cancel()

    async def _end_all(self) -> None:
        for stage in reversed(self._running):
            for child, _ in stage:
                child.stop()
            ended = asyncio.gather(*(task for _, task in stage), return_exceptions=True)
            hurry = asyncio.ensure_future(self._hurry.wait())
            both: list[asyncio.Future[Any]] = [ended, hurry]
            await asyncio.wait(both, timeout=STOPS_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
            if not ended.done():
                for child, _ in stage:
                    child.kill()
                await ended

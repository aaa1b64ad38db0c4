"""A simulated machine: its disk outlives the processes that run on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from moldau.log.cleaner.process import WORKER
from moldau.log.cleaner.work import clean
from moldau.machine import Clock, Disk, Machine, Pause
from moldau.testing.disk import MemoryDisk
from moldau.testing.processes import LoopProcesses
from moldau.testing.simulation.clock import SimulatedClock
from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.network import SimulatedNetwork
from moldau.testing.simulation.process import PROCESS, Process
from moldau.testing.simulation.recorder import Recorder
from moldau.testing.simulation.threads import SimulatedThreads

T = TypeVar("T")


PROGRAMS: Final[Mapping[str, Callable[[Disk, Clock, bytes], Iterator[bytes | Pause]]]] = {
    WORKER: clean
}
"""What may run as a child process, by module: on the node's disk, by its clock."""


class _Limits:
    def raise_open_files(self) -> int:
        return 1 << 20

    def memory(self) -> int:
        return 4 << 30


class _Signals:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object]] = []
        """What the process wants to be called when it is asked to stop."""

    def on_stop(self, callback: Callable[[], object]) -> None:
        self.callbacks.append(callback)


class Node:
    """A host of the world: a name, a disk, clocks, and at most one process at a time."""

    def __init__(
        self,
        name: str,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        recorder: Recorder,
        random: Random,
    ) -> None:
        self.name = name
        self.disk = MemoryDisk(Random(random.getrandbits(64)))  # noqa: S311
        self.clock = SimulatedClock(loop)
        self.process: Process | None = None
        self.slowest_work = 0.005
        """Seconds that work for a thread may take, a sync for instance."""
        self.on_crash: Callable[[bool], object] = _ignore
        """Called at a kill or a power cut, with whether it was the latter."""
        self.children: LoopProcesses
        """Of the present life."""
        self._loop = loop
        self._network = network
        self._recorder = recorder
        self._random = random
        self._lives: list[Process] = []
        self._power_cuts = 0
        self._signals = _Signals()
        network.add_host(name)

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    @property
    def is_running(self) -> bool:
        return self.process is not None and not self.process.has_ended

    # Lives ---------------------------------------------------------------------------------------

    def boot(self) -> Machine:
        """Begin a new life; returns the machine for whatever is to run in it."""
        if self.is_running:
            raise RuntimeError(f"{self.name} is running")
        process = Process(f"{self.name}#{len(self._lives) + 1}", self._loop)
        self.process = process
        self._lives.append(process)
        self._signals = _Signals()
        self._network.power_on(self.name)
        self.disk.guard = self._guard
        self._recorder.record(self.name, "starts", process.name)
        random = self._random
        steps = Random(random.getrandbits(64))  # noqa: S311
        self.children = LoopProcesses(
            self.clock,
            {module: partial(work, self.disk, self.clock) for module, work in PROGRAMS.items()},
            lambda: steps.random() * self.slowest_work,
        )
        return Machine(
            clock=self.clock,
            random=Random(random.getrandbits(64)),  # noqa: S311
            secrets=Random(random.getrandbits(64)),  # noqa: S311
            threads=SimulatedThreads(
                self._loop,
                Random(random.getrandbits(64)),  # noqa: S311
                lambda: self.slowest_work,
            ),
            disk=self.disk,
            processes=self.children,
            network=self._network.network_of(self.name, process),
            signals=self._signals,
            limits=_Limits(),
            boot_id=f"{self.name}:{self._power_cuts}",
        )

    def _guard(self, operation: str, path: str) -> None:
        process = PROCESS.get()
        if process is not None:
            process.operate()
        self.disk.now_ms = self.clock.now_ms()
        self._recorder.record(self.name, operation, path)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the present life. If that ends, it never goes on."""
        process = self._living(work)
        return self._loop.create_task(work, context=process.context.copy())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the present life and wait for it; ProcessEnded if the life ends."""
        process = self._living(work)
        done: asyncio.Future[T] = self._loop.create_future()

        def finish(task: asyncio.Task[T]) -> None:
            if done.done():
                return
            if task.cancelled():
                done.cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def ended() -> None:
            if not done.done():
                done.set_exception(ProcessEnded(process.name))

        self.spawn(work).add_done_callback(finish, context=copy_context())
        process.on_end[ended] = None
        try:
            return await done
        finally:
            process.on_end.pop(ended, None)

    def _living(self, work: Coroutine[Any, Any, Any]) -> Process:
        if self.process is None or self.process.has_ended:
            work.close()
            raise ProcessEnded(f"{self.name} is not running")
        return self.process

    # Their ends ----------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Ask the process to stop, as SIGTERM does; one that does not listen ends at once."""
        process = self.process
        if process is None or process.has_ended:
            return
        self._recorder.record(self.name, "asked to stop")
        if not self._signals.callbacks:
            self.exit()
        for callback in self._signals.callbacks:
            self._loop.call_soon(callback, context=process.context)

    def exit(self) -> None:
        """The program has ended by itself."""
        self._end("exits")

    def kill(self) -> None:
        """End the process as SIGKILL does: what it wrote is in the page cache."""
        if self.is_running:
            self.on_crash(False)
            self._end("killed")

    def power_cut(self) -> None:
        """End everything: what was not synced may be lost, and no peer is told."""
        for path, size in self.disk.unsynced():
            self.tell("unsynced", f"{size} bytes of {path}")
        self._network.power_off(self.name)
        self._power_cuts += 1
        self.on_crash(True)
        self._recorder.record(self.name, "power cut")
        self._end("loses power")
        self.disk = self.disk.power_cut()

    def crash_after(self, operations: int, *, power: bool) -> None:
        """Kill the process, or cut the power, when it has made so many more operations on the
        disk and begins another.
        """
        assert self.process is not None
        self.process.operations_left = operations
        self.process.on_last_operation = self.power_cut if power else self.kill

    def _end(self, how: str) -> None:
        if self.process is not None and not self.process.has_ended:
            self._recorder.record(self.name, how, self.process.name)
            self.process.end()
            self.disk.next_life()

    def end(self) -> None:
        """Whatever runs here ends with the world."""
        self._end("ends")

    def bury(self) -> None:
        """Let go of all that ever ran here."""
        for process in self._lives:
            process.bury()
        self._lives.clear()

    # Everything else -----------------------------------------------------------------------------

    def tell(self, kind: str, *details: object) -> None:
        """Note something for the reader of the timeline."""
        self._recorder.tell(self.name, kind, *details)

    def pause(self, seconds: float) -> None:
        """Hold the process for a while, as SIGSTOP or a long collection does."""
        process = self.process
        if process is None or process.has_ended:
            return
        self._recorder.record(self.name, "paused", f"for {seconds:.3f} s")
        process.pause(until=self._loop.time() + seconds)
        self._loop.call_later(seconds, process.resume_if_due, context=self._network.world)


def _ignore(_: bool) -> None:
    return

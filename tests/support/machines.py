"""Machines for tests: everything on the test's own event loop, on a disk and a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ParamSpec, TypeVar

from moldau.log.cleaner.process import WORKER
from moldau.log.cleaner.work import clean
from moldau.machine import Clock, Disk, Machine, Processes
from moldau.machine.real import real_machine
from moldau.testing.processes import LoopProcesses

P = ParamSpec("P")
T = TypeVar("T")


class LoopThreads:
    """Instead of a thread: another turn of the loop."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    def daemons(self, most: int, name: str) -> LoopThreads:
        return self

    def close(self) -> None: ...


def loop_machine(disk: Disk, clock: Clock, processes: Processes | None = None) -> Machine:
    """Threads and cleaner processes are turns of the loop."""
    if processes is None:
        processes = LoopProcesses(clock, {WORKER: partial(clean, disk, clock)})
    return replace(
        real_machine(), disk=disk, clock=clock, threads=LoopThreads(), processes=processes
    )

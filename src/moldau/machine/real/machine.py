"""The machine that this process runs on."""

from __future__ import annotations

import os
from functools import cache
from random import Random, SystemRandom

from moldau.machine.machine import Machine
from moldau.machine.real.boot import boot_id
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.disk import OsDisk
from moldau.machine.real.limits import OsLimits
from moldau.machine.real.processes import OsProcesses
from moldau.machine.real.signals import OsSignals
from moldau.machine.real.sockets.network import SocketNetwork
from moldau.machine.real.threads import WORKERS, WorkerThreads


def real_machine(workers: int = WORKERS) -> Machine:
    """Returns the real clock, disk, network and so on, with worker threads of their own."""
    return Machine(
        clock=SystemClock(),
        random=Random(),  # noqa: S311 - spreads load; secrets come from the other one
        secrets=SystemRandom(),
        threads=WorkerThreads(workers),
        disk=OsDisk(),
        processes=OsProcesses(),
        network=SocketNetwork(),
        signals=OsSignals(),
        limits=OsLimits(),
        boot_id=boot_id(),
    )


@cache
def this_machine() -> Machine:
    """Returns the real machine that the clients of this process share: with as many threads for
    what users' functions wait for (stores of large values, tokens) as ``asyncio.to_thread`` has.
    """
    return real_machine(min(32, (os.cpu_count() or 1) + 4))


# A child process has neither the parent's threads nor, if it shall not repeat it, its chance.
os.register_at_fork(after_in_child=this_machine.cache_clear)

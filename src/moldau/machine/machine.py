"""Everything that a broker or a client takes from the machine it runs on, in one object.

Nothing else in the project asks the operating system for time, chance, threads, files, processes or
connections. ``moldau.machine.real`` makes the real machine, ``moldau.testing.simulation`` one whose
every answer follows from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.machine.limits import Limits
from moldau.machine.network import Network
from moldau.machine.processes import Processes
from moldau.machine.signals import Signals
from moldau.machine.threads import Threads


@dataclass(frozen=True, slots=True)
class Machine:
    clock: Clock
    random: Random
    """Chance that nobody needs to be kept from guessing: spread, jitter, placement."""
    secrets: Random
    """Chance that nobody may guess: ids, salts, nonces."""
    threads: Threads
    disk: Disk
    processes: Processes
    network: Network
    signals: Signals
    limits: Limits
    boot_id: str | None = None
    """Of the machine's present start: what was written since outlives every process. None where it
    is not told."""

    def new_uuid(self) -> UUID:
        """Returns a random UUID that nobody had before."""
        return UUID(int=self.secrets.getrandbits(128), version=4)

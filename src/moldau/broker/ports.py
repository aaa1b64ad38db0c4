"""Everything that a broker takes from outside itself: its machine, and the coordination store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.storage import DiskStorage
from moldau.coordination.store import CoordinationStore
from moldau.machine import Machine


class Coordination(Protocol):
    """A way to the coordination store."""

    def session(self) -> CoordinationStore:
        """Returns a new session."""
        ...

    async def close(self) -> None:
        """End all sessions. Safe to call twice."""
        ...


OpenCoordination: TypeAlias = Callable[[Machine, str], Awaitable[Coordination]]
"""Opens the store for a broker whose first log directory is given."""


async def open_embedded(machine: Machine, directory: str) -> EmbeddedStore:
    """Opens the store inside the broker's own process, kept in its first log directory."""
    storage = DiskStorage(machine.disk, directory)
    return await EmbeddedStore.open(storage, machine.threads.run, machine.clock.now_ms)


@dataclass(frozen=True, slots=True)
class Ports:
    """What a broker is handed: a real machine in production, a simulated one in a simulation."""

    machine: Machine
    open_coordination: OpenCoordination = field(default=open_embedded)

"""Child processes as an interface: a module of ours that runs beside, fed through a pipe.

Messages are strings of bytes, framed by this layer; what is in them is between the two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

LENGTH_BYTES: Final = 4
"""In front of every message in either direction, big-endian."""


class ChildProcess(Protocol):
    """A running child. It sees the end of its input when this process ends, however it ends."""

    @property
    def pid(self) -> int: ...

    async def send(self, message: bytes) -> None:
        """Raises OSError when the child is gone."""
        ...

    async def receive(self) -> bytes:
        """Returns the next message; raises EOFError when the child ends before it."""
        ...

    def end_input(self) -> None:
        """Tell the child that nothing more will come."""
        ...

    def kill(self) -> None:
        """End it at once; safe at any time."""
        ...

    async def wait(self) -> int:
        """Returns the exit code, negative for a signal, once the child has ended."""
        ...


class Processes(Protocol):
    async def start(self, module: str) -> ChildProcess:
        """Run ``python -m module``."""
        ...


class Pause(NamedTuple):
    """A child that has nothing to say sleeps."""

    seconds: float


ChildProgram: TypeAlias = Callable[[bytes], Iterator[bytes | Pause]]
"""What a child does with one message: it sends messages of its own, and pauses. ``real.child`` runs
such a program as a process, a simulation on its event loop."""

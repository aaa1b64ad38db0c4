"""Worker threads as an interface: where calls go that would hold up the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class RunInThread(Protocol):
    """Runs a blocking function elsewhere, as ``asyncio.to_thread`` does."""

    def __call__(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...


class Threads(Protocol):
    """A few worker threads, made when they are first needed."""

    @property
    def run(self) -> RunInThread: ...

    def daemons(self, most: int, name: str) -> DaemonThreads:
        """Returns threads for calls that may never return: at most so many, and of their own."""
        ...

    def close(self) -> None:
        """Wait for what is running; nothing may be run any more."""
        ...


class DaemonThreads(Protocol):
    """Threads that keep the process from ending in no way."""

    @property
    def run(self) -> RunInThread: ...

    def close(self) -> None:
        """Leave behind what is running; nothing may be run any more."""
        ...

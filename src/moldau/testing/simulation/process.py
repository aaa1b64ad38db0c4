"""One life of a simulated program: from its start until it exits or is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from moldau.testing.simulation.errors import ProcessEnded

if TYPE_CHECKING:
    from moldau.testing.simulation.loop import SimulatedHandle

PROCESS: Final[ContextVar[Process | None]] = ContextVar("PROCESS", default=None)
"""The simulated process that runs; None for the world around them."""

_PRUNE_AT: Final = 256


class ProcessState(Enum):
    RUNNING = auto()
    """Its callbacks run."""
    PAUSED = auto()
    """As after SIGSTOP, or in a long collection: its callbacks are held back."""
    ENDED = auto()
    """Its callbacks are dropped; what it still holds refuses everything."""


class Process:
    """Callbacks, tasks and open things of one life."""

    __slots__ = (
        "_prune_at",
        "_requeue",
        "_tasks",
        "context",
        "held",
        "name",
        "on_end",
        "on_last_operation",
        "operations_left",
        "state",
    )

    def __init__(self, name: str, requeue: Callable[[SimulatedHandle], None]) -> None:
        self.name = name
        self.state = ProcessState.RUNNING
        self.held: list[SimulatedHandle] = []
        self.context: Context = copy_context()
        """In which the world calls the process, for instance when bytes arrive."""
        self.context.run(PROCESS.set, self)
        self.on_end: dict[Callable[[], object], None] = {}
        """Called when the life is over: the system closes what the process had open."""
        self.operations_left = -1
        """After so many more operations on the disk the process is killed; -1 for never."""
        self.on_last_operation: Callable[[], object] = _nothing
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = _PRUNE_AT
        self._requeue = requeue

    def __repr__(self) -> str:
        return f"<{self.name}, {self.state.name.lower()}>"

    @property
    def has_ended(self) -> bool:
        return self.state is ProcessState.ENDED

    def admits(self, handle: SimulatedHandle) -> bool:
        """Whether a callback that is due may run now; keeps it for later if the process rests."""
        if self.state is ProcessState.RUNNING:
            return True
        if self.state is ProcessState.PAUSED:
            self.held.append(handle)
        return False

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until it is done.

        A task that nobody holds would be collected after a kill, and with it what its ``finally``
        blocks do: a dead process does nothing.
        """
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = max(_PRUNE_AT, 2 * len(self._tasks))

    # What it does with the machine ---------------------------------------------------------------

    def check_alive(self) -> None:
        if self.state is ProcessState.ENDED:
            raise ProcessEnded(self.name)

    def operate(self) -> None:
        """Count an operation on the disk; it may be the last."""
        if self.state is ProcessState.ENDED:
            raise ProcessEnded(self.name)
        if self.operations_left >= 0:
            if self.operations_left == 0:
                self.operations_left = -1
                self.on_last_operation()
                raise ProcessEnded(self.name)
            self.operations_left -= 1

    # What happens to it --------------------------------------------------------------------------

    def pause(self) -> None:
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def resume(self) -> None:
        if self.state is ProcessState.PAUSED:
            self.state = ProcessState.RUNNING
            held, self.held = self.held, []
            for handle in held:
                self._requeue(handle)

    def end(self) -> None:
        """The life is over, at once."""
        if self.state is ProcessState.ENDED:
            return
        self.state = ProcessState.ENDED
        self.held.clear()
        callbacks, self.on_end = self.on_end, {}
        for callback in callbacks:
            callback()

    def bury(self) -> None:
        """Let go of what it left behind, at the end of the world."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                if coroutine is not None:
                    _close(coroutine)


def _close(coroutine: Any) -> None:
    # Whatever it still wants to do, it cannot.
    with suppress(BaseException):
        coroutine.close()


def _nothing() -> None:
    return

"""One life of a simulated program: from its start until it exits or is killed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.kept_tasks import KeptTasks

if TYPE_CHECKING:
    from moldau.testing.simulation.loop import SimulatedHandle, SimulatedLoop

PROCESS: Final[ContextVar[Process | None]] = ContextVar("PROCESS", default=None)
"""The simulated process that runs; None for the world around them."""


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
        "_held",
        "_loop",
        "_resume_at",
        "context",
        "name",
        "on_end",
        "on_last_operation",
        "operations_left",
        "paused_at",
        "resumed_at",
        "state",
        "tasks",
    )

    def __init__(self, name: str, loop: SimulatedLoop) -> None:
        self.name = name
        self.state = ProcessState.RUNNING
        self.context: Context = copy_context()
        """In which the world calls the process."""
        self.context.run(PROCESS.set, self)
        self.tasks = KeptTasks()
        self.on_end: dict[Callable[[], object], None] = {}
        """Called when the life is over: the system closes what the process had open."""
        self.operations_left = -1
        """After so many more operations on the disk the process is killed; -1 for never."""
        self.on_last_operation: Callable[[], object] = _nothing
        self.paused_at = self.resumed_at = -1.0
        """Of the last pause."""
        self._resume_at = 0.0
        self._loop = loop
        self._held: list[SimulatedHandle] = []

    def __repr__(self) -> str:
        return f"<{self.name}, {self.state.name.lower()}>"

    @property
    def has_ended(self) -> bool:
        return self.state is ProcessState.ENDED

    @property
    def heard_at(self) -> float:
        """Since when the world may have known what the process learns just now.

        That is now, but for a process that wakes from a pause and finds what came meanwhile.
        """
        now = self._loop.time()
        return self.paused_at if self.resumed_at == now else now

    # What it does with the machine ---------------------------------------------------------------

    def check_alive(self) -> None:
        if self.state is ProcessState.ENDED:
            raise ProcessEnded(self.name)

    def operate(self) -> None:
        """Count an operation on the disk; it may be the last."""
        self.check_alive()
        if self.operations_left >= 0:
            if self.operations_left == 0:
                self.operations_left = -1
                self.on_last_operation()
                raise ProcessEnded(self.name)
            self.operations_left -= 1

    # What happens to it --------------------------------------------------------------------------

    def defer(self, handle: SimulatedHandle) -> None:
        """A callback is due that may not run now: a paused process finds it when it goes on."""
        if self.state is ProcessState.PAUSED:
            self._held.append(handle)

    def pause(self, until: float) -> None:
        """Hold its callbacks back; of several pauses the one counts that is over last."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED
            self.paused_at = self._loop.time()
            self._resume_at = until
        self._resume_at = max(self._resume_at, until)

    def resume_if_due(self) -> None:
        if self._loop.time() >= self._resume_at:
            self.resume()

    def resume(self) -> None:
        if self.state is ProcessState.PAUSED:
            self.state = ProcessState.RUNNING
            self.resumed_at = self._loop.time()
            held, self._held = self._held, []
            self._loop.run_first(held)

    def end(self) -> None:
        """The life is over, at once."""
        if self.state is ProcessState.ENDED:
            return
        self.state = ProcessState.ENDED
        self._held.clear()
        callbacks, self.on_end = self.on_end, {}
        for callback in callbacks:
            callback()

    def bury(self) -> None:
        """Let go of what it left behind, at the end of the world."""
        # In its own context: whatever the tasks still try to do, the machine refuses.
        self.context.run(self.tasks.close, self._loop)


def _nothing() -> None:
    return

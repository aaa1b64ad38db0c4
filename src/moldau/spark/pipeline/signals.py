"""Signals that end a run, or have it begin anew."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Protocol, Self

Tell = Callable[[Literal["running", "stopping"]], None]


class Stoppable(Protocol):
    def stop(self) -> None: ...


class RestartRequestedError(Exception):
    """The pipeline has stopped in order to begin anew."""


class Signals:
    """The first signal stops a run, or interrupts its beginning; the second one interrupts.

    While a process of Spark's starts, the first one is only noted: it would be left behind.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.received: int | None = None
        self.interrupting = False
        self.run: Stoppable | None = None
        self._before: Mapping[int, Any] = {}

    @property
    def restart_requested(self) -> bool:
        return self.received == RESTART

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def install(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again, self.received = self.received is not None, number
        self._tell("stopping")
        if again or (self.interrupting and self.run is None):
            raise KeyboardInterrupt
        if self.run is not None:
            self.run.stop()


RESTART: Final = signal.SIGUSR1
"""What ``moldau pipeline restart`` sends. Not SIGHUP, which also says that a terminal is gone."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, RESTART)

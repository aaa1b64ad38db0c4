"""Signals as an interface: how somebody outside asks a process to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Signals(Protocol):
    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call back on the event loop whenever the process is asked to stop."""
        ...

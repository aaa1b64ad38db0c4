"""The signals that a process is asked to stop with."""

from __future__ import annotations

import signal
from asyncio import get_running_loop
from collections.abc import Callable


class OsSignals:
    def on_stop(self, callback: Callable[[], object]) -> None:
        loop = get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, callback)

"""Server processes under test: started, watched until ready, stopped cleanly or killed.

Output goes to a file rather than a pipe: a server that nobody reads from must not block, and the
tail of the file is what a failing start shows.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 120.0

NO_RETENTION = {"log.initial.task.delay.ms": "3600000"}
"""Settings of brokers in tests: many records have old times, and must not be gone before they are
looked at. Tests of retention set it back."""

_PORTS: Final = (10_000, 32_768)
_RANDOM: Final = random.SystemRandom()  # tests seed the other one, all processes alike


def free_port() -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones.

    Not of those that the system hands out: while a server restarts on its port, somebody's
    connection to elsewhere could be given it.
    """
    with ExitStack() as probes:
        ports: list[int] = []
        while len(ports) < count:
            probe = probes.enter_context(socket.socket())
            port = _RANDOM.randrange(*_PORTS)
            with contextlib.suppress(OSError):  # taken
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


class ServerProcess:
    """One process whose output goes to a file."""

    def __init__(
        self, command: Sequence[str], output: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.command = list(command)
        self.output = output
        with output.open("ab") as sink:
            self._output_start = sink.tell()
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        """What this process has printed so far."""
        with self.output.open("rb") as source:
            source.seek(self._output_start)
            return source.read().decode(errors="replace")

    def wait_for(self, marker: str, timeout_s: float = START_TIMEOUT_S) -> str:
        """The first complete line that holds the marker; fails when the process ends first."""
        deadline = time.monotonic() + timeout_s
        while True:
            running = self.running
            for line in self.text().splitlines(keepends=True):
                if marker in line and line.endswith("\n"):
                    return line.strip()
            if not running or time.monotonic() > deadline:
                state = "did not get ready" if running else f"ended ({self._process.returncode})"
                self.kill()
                raise RuntimeError(f"{self.command[0]} {state}:\n{self.text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> int:
        """Asks the process to end (SIGTERM) and returns its exit code."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Ends the process at once (SIGKILL): no flush, no marker, no goodbye."""
        if self.running:
            self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

"""A Moldau program as a child process: start, wait until it is ready, kill, restart, read its log.

The child also ends when this process dies without saying goodbye: it holds the reading end of a
pipe whose writing end only this process has.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

READY_PREFIX = "moldau ready: "
_LOG_LINES_SHOWN = 40


class BrokerStartError(RuntimeError):
    """The program ended or stayed silent instead of becoming ready; the message holds its log."""


class MoldauChild(ABC):
    """A program that says where it listens; the port stays the same over restarts."""

    title = "Moldau program"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        log_name: str,
        host: str = "127.0.0.1",
        port: int = 0,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        self.directory = Path(directory)
        self.host = host
        self.port = port
        self.env = dict(env or {})
        self.start_timeout = start_timeout
        self.python = sys.executable
        self.ready_line = ""
        self._log_name = log_name
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._end_at_exit: weakref.finalize[..., Any] | None = None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def log_file(self) -> Path:
        """What the program writes to stderr, over all starts."""
        return self.directory / self._log_name

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until the program has said that it is ready."""
        if self.alive:
            raise RuntimeError(f"the {self.title} is already running")
        self.directory.mkdir(parents=True, exist_ok=True)
        read_end, self._lifeline = os.pipe()
        try:
            with self.log_file.open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own command line
                    self._command(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    pass_fds=(read_end,),
                    env={**os.environ, **self.env, "MOLDAU_LIFELINE_FD": str(read_end)},
                )
        finally:
            os.close(read_end)
        self._end_at_exit = weakref.finalize(self, _end, self._process, self._lifeline)
        try:
            self.ready_line = self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        self.port = _port_of(self.ready_line)
        return self

    def terminate(self, timeout: float = 120.0) -> int:
        """Ask for a clean shutdown (SIGTERM), wait for it, and give the exit code."""
        return self._stop(signal.SIGTERM, timeout)

    def kill(self) -> int:
        """End it at once, as a crash would (SIGKILL)."""
        return self._stop(signal.SIGKILL, 120.0)

    def restart(self) -> Self:
        """Stop cleanly if it still runs, and start again on the same port and data."""
        if self.alive:
            self.terminate()
        return self.start()

    def logs(self, lines: int = _LOG_LINES_SHOWN) -> str:
        """The last lines of its log."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.alive:
            self._forget()
            return
        try:
            self.terminate()
        except subprocess.TimeoutExpired:
            self.kill()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.alive else "not running"
        return f"<{type(self).__name__} {self.address} in {self.directory}, {state}>"

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Returns what starts the program."""

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + self.start_timeout
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._start_error(f"was not ready after {self.start_timeout:g} s")
                chunk = os.read(process.stdout.fileno(), 65536)
                said += chunk
                for line in said.decode(errors="replace").splitlines(keepends=True):
                    if line.startswith(READY_PREFIX) and line.endswith("\n"):
                        return line.rstrip("\n")
                if not chunk:
                    raise self._start_error(f"ended with exit code {process.wait()}")

    def _start_error(self, what: str) -> BrokerStartError:
        log = self.logs() or "(it logged nothing)"
        return BrokerStartError(f"The {self.title} {what}. The end of its log:\n{log}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"the {self.title} was not started")
        return self._process

    def _stop(self, signal_number: signal.Signals, timeout: float) -> int:
        process = self._running()
        process.send_signal(signal_number)
        code = process.wait(timeout)
        self._forget()
        return code

    def _forget(self) -> None:
        if self._end_at_exit is not None:
            self._end_at_exit()
            self._end_at_exit = None
        self._lifeline = None


def _end(process: subprocess.Popen[bytes], lifeline: int) -> None:
    """Leave nothing behind: no process, no pipe. Also runs at interpreter exit."""
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    os.close(lifeline)


def _port_of(ready_line: str) -> int:
    first_address = ready_line.rpartition(" listening on ")[2].split(",")[0]
    return int(first_address.rpartition(":")[2])

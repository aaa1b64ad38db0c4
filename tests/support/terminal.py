"""A terminal: what a program that has one shows, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

_SEQUENCE: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b]+)|\x1b")


def screen(text: str) -> list[str]:
    """The lines that are left when a terminal without end has shown all this."""
    lines = [""]
    row = column = 0
    for numbers, command, control, words in _SEQUENCE.findall(text):
        if control == "\r":
            column = 0
        elif control == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif command == "A":
            row = max(0, row - int(numbers or 1))
        elif command == "K":
            lines[row] = "" if numbers == "2" else lines[row][:column]
        elif command in ("H", "J"):
            lines, row, column = [""], 0, 0  # it is cleared
        elif words:
            before = lines[row].ljust(column)
            lines[row] = before[:column] + words + before[column + len(words) :]
            column += len(words)
    return [line.rstrip() for line in lines]


class Terminal:
    """A program on a terminal of its own; all that it has started ends with it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 100,
        rows: int = 50,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            # Tests that run in several processes have a width of their own in the environment.
            env={
                **{name: text for name, text in env.items() if name not in ("COLUMNS", "LINES")},
                "TERM": "xterm-256color",
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._written = b""
        self._reading = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reading.start()

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._ours, 65536)
            except OSError:  # nobody has it open any more
                return
            if not chunk:
                return
            self._written += chunk

    def screen(self) -> list[str]:
        return screen(self._written.decode(errors="replace"))

    def wait(self, timeout: float) -> int:
        """The exit code, when everything was shown."""
        code = self.process.wait(timeout)
        self._reading.join(timeout)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._reading.join(60)
        os.close(self._ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Child processes of the operating system."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from moldau.machine.processes import LENGTH_BYTES


class PipedProcess:
    """A child whose standard input and output carry the messages."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, message: bytes) -> None:
        self._input.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
        await self._input.drain()

    async def receive(self) -> bytes:
        size = int.from_bytes(await self._output.readexactly(LENGTH_BYTES), "big")
        return await self._output.readexactly(size)

    def end_input(self) -> None:
        self._input.close()

    def kill(self) -> None:
        # Not Process.kill(): up to Python 3.12 it looks whether the process has ended, and with
        # that takes the exit code away from the thread that waits for it.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def wait(self) -> int:
        return await self._process.wait()


class OsProcesses:
    """The machine's processes."""

    async def start(self, module: str) -> PipedProcess:
        return PipedProcess(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, stdin=PIPE, stdout=PIPE
            )
        )

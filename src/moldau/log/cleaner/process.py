"""A cleaner process, as the broker sees it: started on demand, fed with tasks through a pipe.

Cleaning is computing, record after record, and would take turns with the event loop for the
interpreter's lock if it ran in a thread. A process of low priority leaves requests alone, and
whatever goes wrong in it goes wrong there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import msgspec

from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanTask, Progress, Report
from moldau.log.cleaner.runner import Result, RunnerError

_log = logging.getLogger(__name__)

SILENCE_S: Final = 60.0
"""A cleaner that says nothing for so long is stuck; it reports every second."""
STOP_S: Final = 5.0
"""How long a cleaner may take to notice that its input has ended."""
_LENGTH_BYTES: Final = 4

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Report)


class CleanerProcess:
    """A ``Runner`` that has its work done by ``python -m moldau.log.cleaner.worker``."""

    def __init__(self, silence_s: float = SILENCE_S, stop_s: float = STOP_S) -> None:
        self._silence_s = silence_s
        self._stop_s = stop_s
        self._process: asyncio.subprocess.Process | None = None
        self._killed: list[asyncio.subprocess.Process] = []

    @property
    def pid(self) -> int | None:
        """Of the running process, if there is one."""
        return None if self._process is None else self._process.pid

    async def run(self, task: CleanTask) -> AsyncGenerator[Result, None]:
        process = self._process or await self._start()
        try:
            await self._send(process, task)
            while True:
                report = await self._receive(process)
                if isinstance(report, Progress):
                    continue
                yield report
                if isinstance(report, CleanDone | CleanFailed):
                    return
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError) as error:
            self.kill()
            code = await process.wait()
            raise RunnerError(
                f"the cleaner process {process.pid} ended with {code} ({error!r})"
            ) from error

    async def _start(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "moldau.log.cleaner.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self._process

    async def _send(self, process: asyncio.subprocess.Process, task: CleanTask) -> None:
        assert process.stdin is not None
        data = _encoder.encode(task)
        process.stdin.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        await asyncio.wait_for(process.stdin.drain(), self._silence_s)

    async def _receive(self, process: asyncio.subprocess.Process) -> Report:
        assert process.stdout is not None
        read = process.stdout.readexactly
        size = await asyncio.wait_for(read(_LENGTH_BYTES), self._silence_s)
        data = await asyncio.wait_for(read(int.from_bytes(size, "big")), self._silence_s)
        report: Report = _decoder.decode(data)
        return report

    def kill(self) -> None:
        if self._process is not None:
            _kill(self._process)
            self._killed.append(self._process)
            self._process = None

    async def stop(self) -> None:
        """Let it end by itself (its input ends); the memory it used is free again."""
        while self._killed:
            await self._killed.pop().wait()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), self._stop_s)
        except TimeoutError:
            _log.warning("cleaner process %d does not end by itself, killed", process.pid)
            _kill(process)
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    # Not process.kill(): up to Python 3.12 it looks whether the process has ended, and with that
    # takes the exit code away from the thread that waits for it.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

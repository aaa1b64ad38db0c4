"""A cleaner process, as the broker sees it: started on demand, fed with tasks through a pipe.

Cleaning is computing, record after record, and would take turns with the event loop for the
interpreter's lock if it ran in a thread. A process of low priority leaves requests alone, and
whatever goes wrong in it goes wrong there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from moldau.log.cleaner.messages import (
    CleanDone,
    CleanFailed,
    CleanTask,
    GroupCleaned,
    Progress,
    Report,
)
from moldau.machine import ChildProcess, Processes

_log = logging.getLogger(__name__)

WORKER: Final = "moldau.log.cleaner.worker"
SILENCE_S: Final = 60.0
"""A cleaner that says nothing for so long is stuck; it reports every second."""
STOP_S: Final = 5.0
"""How long a cleaner may take to notice that its input has ended."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Report)


class CleanerDiedError(Exception):
    """The cleaner ended or fell silent; the partition it worked on need not be to blame."""


class CleanerProcess:
    """Has its work done by ``python -m moldau.log.cleaner.worker``."""

    def __init__(
        self, processes: Processes, silence_s: float = SILENCE_S, stop_s: float = STOP_S
    ) -> None:
        self._processes = processes
        self._silence_s = silence_s
        self._stop_s = stop_s
        self._process: ChildProcess | None = None
        self._killed: list[ChildProcess] = []

    @property
    def pid(self) -> int | None:
        """Of the running process, if there is one."""
        return None if self._process is None else self._process.pid

    async def run(
        self, task: CleanTask
    ) -> AsyncGenerator[GroupCleaned | CleanDone | CleanFailed, None]:
        """Clean; yields the groups that are ready to be swapped in, then the end."""
        if self._process is None:
            self._process = await self._processes.start(WORKER)
        process = self._process
        try:
            await asyncio.wait_for(process.send(_encoder.encode(task)), self._silence_s)
            while True:
                message = await asyncio.wait_for(process.receive(), self._silence_s)
                report: Report = _decoder.decode(message)
                if isinstance(report, Progress):
                    continue
                yield report
                if isinstance(report, CleanDone | CleanFailed):
                    return
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError) as error:
            self.kill()
            code = await process.wait()
            raise CleanerDiedError(
                f"the cleaner process {process.pid} ended with {code} ({error!r})"
            ) from error

    def kill(self) -> None:
        """Give up whatever is being cleaned, at once."""
        if self._process is not None:
            self._process.kill()
            self._killed.append(self._process)
            self._process = None

    async def stop(self) -> None:
        """There is nothing to do for a while: let it end by itself (its input ends), so that the
        memory it used is free again.
        """
        while self._killed:
            await self._killed.pop().wait()
        process, self._process = self._process, None
        if process is None:
            return
        process.end_input()
        try:
            await asyncio.wait_for(process.wait(), self._stop_s)
        except TimeoutError:
            _log.warning("cleaner process %d does not end by itself, killed", process.pid)
            process.kill()
            await process.wait()

"""Cleaning where the broker runs, on any disk: for simulations."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from moldau.log.cleaner.compaction import Compaction
from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanTask
from moldau.log.cleaner.runner import Result
from moldau.machine.disk import Disk
from moldau.records.errors import CorruptRecordError, InvalidRecordError


class DirectRunner:
    """Cleans where it is called, on any disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, task: CleanTask) -> AsyncGenerator[Result, None]:
        compaction = Compaction(self._disk, task, lambda _: None)
        try:
            for group in compaction.run():
                yield group
        except (CorruptRecordError, InvalidRecordError) as error:
            yield CleanFailed(str(error), corrupt=True)
        except OSError as error:
            yield CleanFailed(str(error), corrupt=False)
        else:
            yield CleanDone(compaction.end_offset, compaction.stats)

    def kill(self) -> None:
        pass

    async def stop(self) -> None:
        pass

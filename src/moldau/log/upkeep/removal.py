"""Removing files and directories that are marked for it, after ``file.delete.delay.ms``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.upkeep.background import Background
from moldau.machine import RunInThread
from moldau.machine.disk import Disk

_log = logging.getLogger(__name__)


class DelayedRemoval:
    """What is not removed because the broker ends is at the next start."""

    def __init__(self, disk: Disk, run_in_thread: RunInThread, background: Background) -> None:
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._background = background

    def finish(self, directory: LogDirectory, names: Iterable[str]) -> None:
        """Remove what the last run of the broker has left, now."""
        for name in names:
            self._background.spawn(self._remove_tree(directory, name))

    def remove_tree(self, directory: LogDirectory, name: str, delay_ms: int) -> None:
        """Remove a directory in a log directory, with all that is in it."""
        self._background.later(delay_ms / 1000, partial(self._remove_tree, directory, name))

    async def _remove_tree(self, directory: LogDirectory, name: str) -> None:
        await self._run_in_thread(directory.remove_tree, name)

    def remove_files(self, paths: Sequence[str], delay_ms: int) -> None:
        self._background.later(delay_ms / 1000, partial(self._remove_files, paths))

    async def _remove_files(self, paths: Sequence[str]) -> None:
        def remove() -> None:
            for path in paths:
                self._disk.remove(path)

        try:
            await self._run_in_thread(remove)
        except OSError as error:
            _log.warning("removed segments stay on disk until the next start: %s", error)

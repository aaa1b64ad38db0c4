"""Making a log durable without stopping it: prepare on the loop, sync in a thread, then take note.

The order is what recovery relies on. Data, the indexes of closed segments, producer snapshots and
leader epochs are durable before the recovery point passes them.
"""

from __future__ import annotations

from typing import Final

from moldau.machine.disk import Disk, File
from moldau.machine.errors import is_passing

_ATOMIC_BYTES: Final = 512
"""So much a disk writes all or not at all: a small file may be overwritten where it is, which is
several times faster than another file renamed to it. One that is torn nevertheless is noticed."""


class FlushJob:
    """Everything a worker thread needs; it never touches the log itself."""

    __slots__ = (
        "_disk",
        "directories",
        "epochs",
        "files",
        "generation",
        "offset",
        "paths",
        "sync_failed",
    )

    def __init__(
        self,
        disk: Disk,
        offset: int,
        generation: int,
        *,
        files: list[File],
        paths: list[str],
        epochs: tuple[str, bytes] | None,
        directories: list[str],
    ) -> None:
        self._disk = disk
        self.files = files
        self.paths = paths
        self.epochs = epochs
        self.directories = directories
        self.offset = offset
        """The recovery point once ``run`` has succeeded."""
        self.generation = generation
        """How often the log had been truncated: an older job must not raise the recovery point."""
        self.sync_failed = False
        """The system could not write what it had taken: nobody knows what is on the disk."""

    def run(self) -> None:
        """Sync (in a worker thread). OSError means that nothing may be taken for durable."""
        try:
            self._sync_files()
        except OSError as error:
            self.sync_failed = not is_passing(error)
            raise
        synced = None
        if self.epochs is not None:
            self._disk.write_atomic(*self.epochs)
            synced = self.epochs[0].rpartition("/")[0]
        for directory in self.directories:
            if directory != synced:
                self._disk.sync_dir(directory)

    def _sync_files(self) -> None:
        for file in self.files:
            file.sync()
        for path in self.paths:
            try:
                self._disk.sync(path)
            except FileNotFoundError:
                # Deleted since; what is gone needs no syncing.
                continue

    def run_before_filesystem_sync(self) -> None:
        """The same, except that the caller makes the whole file system durable after it."""
        if self.epochs is not None:
            path, data = self.epochs
            if len(data) <= _ATOMIC_BYTES:
                self._disk.write(path, data)
            else:
                self._disk.write(path + ".tmp", data)
                self._disk.rename(path + ".tmp", path)

"""Stores to test: in memory, failing on command, or in a directory."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

from moldau.coordination.embedded import SNAPSHOT_AFTER_BYTES, EmbeddedStore
from moldau.coordination.storage import DiskStorage, Storage
from moldau.machine import RunInThread
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.disk import OsDisk


class MemoryStorage:
    """``fail_append``, ``fail_blank`` and ``fail_replace`` hold the errno of a failure
    to come.

    A failing append leaves ``torn`` bytes of what it was given, as a real disk may.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.appends = 0
        self.replaced: list[str] = []
        self.fail_append = 0
        self.fail_blank = 0
        self.fail_replace = 0
        self.torn = 0
        self.closed = False

    def lock(self) -> None: ...

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def replace(self, name: str, data: bytes, *, keep: str | None = None, room: int = 0) -> None:
        if self.fail_replace:
            error, self.fail_replace = self.fail_replace, 0
            raise OSError(error, os.strerror(error))
        self.replaced.append(name)
        if keep is not None and name in self.files:
            self.files[keep] = self.files[name]
        self.files[name] = data

    def append(self, name: str, data: bytes, at: int) -> None:
        if self.fail_append:
            error, self.fail_append = self.fail_append, 0
            self.files[name] = self.files[name][:at] + data[: self.torn]
            raise OSError(error, os.strerror(error))
        self.appends += 1
        self.files[name] = self.files[name][:at] + data + self.files[name][at + len(data) :]

    def blank(self, name: str, size: int) -> None:
        if self.fail_blank:
            raise OSError(self.fail_blank, os.strerror(self.fail_blank))
        self.files[name] = self.files[name][:size]

    def prepare(self, name: str) -> None: ...

    def reserve(self, name: str, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def size(self, name: str) -> int:
        return len(self.files[name])

    def close(self) -> None:
        self.closed = True


async def open_store(
    where: Storage | Path,
    run_in_thread: RunInThread = asyncio.to_thread,
    snapshot_after: int = SNAPSHOT_AFTER_BYTES,
) -> EmbeddedStore:
    """A store in memory or in a directory."""
    storage = DiskStorage(OsDisk(), str(where)) if isinstance(where, Path) else where
    return await EmbeddedStore.open(storage, run_in_thread, SystemClock().now_ms, snapshot_after)

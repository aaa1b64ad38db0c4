"""A lock on a checkpoint for as long as a process lives: the kernel lets go of it then."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

LOCK_FILE: Final = "run.lock"
_HANDED_OVER: Final = "MOLDAU_PIPELINE_LOCK"
"""The number of the open file, for the same process after it has begun anew."""
_PATIENCE: Final = 2.0
"""Whoever looks whether a lock is held holds it for a moment; a run that ends takes a while."""


class RunLock:
    def __init__(self, place: Path) -> None:
        """``BlockingIOError`` if another process holds it."""
        place.mkdir(parents=True, exist_ok=True)
        file = place / LOCK_FILE
        self._descriptor = _inherited(file)
        if self._descriptor is not None:
            return
        # Not for children: Spark's process may live on for a while.
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _wait(self._descriptor)
        except BaseException:
            self.close()
            raise

    def hand_over(self) -> None:
        """To the program that this process runs from now on, without a gap in between."""
        assert self._descriptor is not None
        os.set_inheritable(self._descriptor, True)
        os.environ[_HANDED_OVER] = str(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def handed_over() -> bool:
    """Whether this process has run the pipeline before, and begins anew."""
    return _HANDED_OVER in os.environ


def is_locked(place: Path) -> bool:
    """Whether a process runs a pipeline there."""
    try:
        with (place / LOCK_FILE).open("rb") as file:
            return not _try(file.fileno(), fcntl.LOCK_SH)
    except OSError:
        return False


def _wait(descriptor: int) -> None:
    end = time.monotonic() + _PATIENCE
    while not _try(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > end:
            raise BlockingIOError
        time.sleep(0.05)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _inherited(file: Path) -> int | None:
    number = os.environ.pop(_HANDED_OVER, None)
    if number is None:
        return None
    with suppress(OSError, ValueError):
        descriptor = int(number)
        if os.path.samestat(os.fstat(descriptor), file.stat()):
            os.set_inheritable(descriptor, False)
            return descriptor
        os.close(descriptor)
    return None

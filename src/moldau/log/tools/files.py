"""The files that the tools look at.

A person runs them on the directories of other programs, perhaps of an Apache Kafka, perhaps while
it is running. So they read from this machine's disk and no other, open nothing for writing (as a
``Disk`` would), and ask for the locks of others. No broker and no simulation comes here.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path, PurePath
from typing import Final

from moldau.log.files.names import LOCK_FILE
from moldau.machine.real.disk import OsDisk, open_for_reading

__all__ = [
    "DISK",
    "exists",
    "is_directory",
    "is_in_use",
    "list_directories",
    "list_files",
    "open_for_reading",
]

DISK: Final = OsDisk()
"""For reading small files."""


def exists(path: str | PurePath) -> bool:
    return Path(path).exists()


def is_directory(path: PurePath) -> bool:
    return Path(path).is_dir()


def list_files(directory: PurePath) -> list[PurePath]:
    """Returns the files in a directory, by name."""
    return sorted(path for path in Path(directory).iterdir() if path.is_file())


def list_directories(directory: PurePath) -> list[PurePath]:
    """Returns the directories in a directory, by name."""
    return sorted(path for path in Path(directory).iterdir() if path.is_dir())


def is_in_use(directory: PurePath) -> bool:
    """Moldau locks with flock, Apache Kafka with a POSIX lock: both are asked."""
    try:
        fd = os.open(Path(directory, LOCK_FILE), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # no lock, or not ours to try
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False

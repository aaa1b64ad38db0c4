"""Whose directory it is: of one supervisor at a time, and of nobody new before the children of the
last one are gone, who may outlive it by a moment.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.cli.exit_codes import CommandError
from moldau.cli.output import tell

_LOCK: Final = "cluster.lock"
SAYS_SO_AFTER_S: Final = 1.0
WAITS_S: Final = 60.0
_LOOKS_EVERY_S: Final = 0.05


@contextmanager
def locked_cluster(directory: Path) -> Iterator[int]:
    """Have the directory; yields a descriptor for children to hold, by which the next supervisor
    knows of them.
    """
    with (
        _opened(directory / _LOCK, os.O_RDWR | os.O_CREAT) as own,
        _opened(directory, os.O_RDONLY) as family,
    ):
        if not _try(own):
            raise CommandError(f"{directory} is in use: another 'moldau up --brokers' runs there")
        _wait_for(family, directory)
        yield family


def _wait_for(family: int, directory: Path) -> None:
    began = time.monotonic()
    has_said_so = False
    while not _try(family):
        waited_s = time.monotonic() - began
        if waited_s > WAITS_S:
            raise CommandError(
                f"processes of an earlier 'moldau up --brokers' in {directory} do not end: look "
                f"for them with 'ps -ef | grep {directory}', and stop them"
            )
        if waited_s > SAYS_SO_AFTER_S and not has_said_so:
            has_said_so = True
            tell("Waiting for the processes of an earlier run to end.")
        time.sleep(_LOOKS_EVERY_S)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

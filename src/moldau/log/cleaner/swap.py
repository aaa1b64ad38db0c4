"""Putting a cleaned segment in the place of the ones it was made of. Blocks: runs in a thread.

Each step is one that a start after a crash can finish or undo (see ``leftovers``): ``.cleaned``
files are thrown away; once all of them are ``.swap``, durably, they are finished instead. The log
file is renamed before its indexes, so that while one of the two names is left it says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.log.cleaner.messages import GroupCleaned
from moldau.log.files.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from moldau.machine.disk import Disk
from moldau.machine.errors import is_passing

_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def swap_in(disk: Disk, directory: str, group: GroupCleaned) -> list[str]:
    """Replace the old segments by the new one; returns the files that may be deleted later.

    If it fails for lack of a descriptor (``is_passing``), everything is as it was. After any other
    error nobody knows.
    """
    # An older unfinished file would make a start after a crash throw this segment away.
    remove_cleaned(disk, directory, below=group.base_offset)
    new = [f"{directory}/{file_name(group.base_offset, suffix)}" for suffix in _SUFFIXES]
    new = [path for path in new if disk.exists(path + CLEANED_SUFFIX)]
    for path in new:
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    try:
        disk.sync_dir(directory)
    except OSError as error:
        if is_passing(error):
            for path in new:
                disk.rename(path + SWAP_SUFFIX, path + CLEANED_SUFFIX)
        raise
    deleted = []
    for path in _old_files(directory, group):
        if disk.exists(path):
            disk.rename(path, path + DELETED_SUFFIX)
            deleted.append(path + DELETED_SUFFIX)
    for path in new:
        disk.rename(path + SWAP_SUFFIX, path)
    try:
        disk.sync_dir(directory)
    except OSError as error:
        # A power cut from here on leaves what a start puts in order.
        if not is_passing(error):
            raise
    return deleted


def _old_files(directory: str, group: GroupCleaned) -> Iterable[str]:
    for base_offset in group.replaces:
        for suffix in _SUFFIXES:
            yield f"{directory}/{file_name(base_offset, suffix)}"
        if base_offset != group.base_offset:
            yield f"{directory}/{file_name(base_offset, SNAPSHOT_SUFFIX)}"


def remove_cleaned(disk: Disk, directory: str, *, below: int = 2**63) -> None:
    """Throw away what a cleaning has written and nobody will swap in."""
    for name in sorted(disk.listdir(directory)):
        parsed = parse_file_name(name)
        if parsed is not None and parsed[2] == CLEANED_SUFFIX and parsed[0] < below:
            disk.remove(f"{directory}/{name}")

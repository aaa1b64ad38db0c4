"""Directories whose names survive a power cut."""

from __future__ import annotations

from moldau.machine.disk import Disk


def make_directory(disk: Disk, path: str) -> None:
    """Make a directory and its parents where they are missing, durably: a power cut may not take
    it and all that is synced in it.
    """
    missing = []
    name = path
    while name and not disk.exists(name):
        missing.append(name)
        name = name.rpartition("/")[0]
    if missing:
        disk.makedirs(path)
        for name in missing:
            disk.sync_dir(name.rpartition("/")[0] or ("/" if name[0] == "/" else "."))

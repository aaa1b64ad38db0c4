"""The limits of this process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class OsLimits:
    def __init__(self, root: Path = Path("/")) -> None:
        """``root``: where the files are in which Linux tells about control groups."""
        self._root = root

    def raise_open_files(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # what a system refuses to do, and what it calls wrong
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

    def memory(self) -> int:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return min(physical, *self._control_group_limits(), sys.maxsize)

    def _control_group_limits(self) -> Iterator[int]:
        """A group has no more than any of those above it. In a container its own group is the root
        of what is mounted, whatever the path says.
        """
        mounted = self._root / "sys/fs/cgroup"
        for controllers, path in self._control_groups():
            if not controllers:
                base, name = mounted, "memory.max"
            elif "memory" in controllers.split(","):
                base, name = mounted / "memory", "memory.limit_in_bytes"
            else:
                continue
            group = base / path.lstrip("/")
            for directory in (group, *group.parents):
                if directory.is_relative_to(base):
                    with suppress(OSError, ValueError):  # no such file; "max" for no limit
                        yield int((directory / name).read_text())

    def _control_groups(self) -> Iterator[tuple[str, str]]:
        """The controllers and the path of each group that the process is in; the one group of
        version 2 has no controllers.
        """
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:  # no Linux
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            yield controllers, path

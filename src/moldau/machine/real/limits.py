"""The limits of this process."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


class OsLimits:
    def raise_open_files(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # what a system refuses to do, and what it calls wrong
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

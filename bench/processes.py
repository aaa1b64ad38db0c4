"""What the system says that processes have used: CPU time and memory."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

CPUCLOCK_SCHED = 2
"""The system's name for the precise one of a process's clocks."""

GONE = (FileNotFoundError, ProcessLookupError)


def cpu_seconds(*pids: int) -> float:
    """User and system time of processes so far, all threads, those that have ended too.

    From the process's own clock (``clock_getcpuclockid(3)``, which Python does not have): the times
    in /proc are counted in hundredths of a second, too coarse for a short round.
    """
    return sum(time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED) for pid in pids)


def resident_mb(*pids: int) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def family_cpu_seconds(pid: int) -> float:
    """Of a process and its descendants, with those that have ended."""
    total = 0.0
    for member in _family(pid):
        with suppress(*GONE, OSError):  # OSError: a clock whose process is gone
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
            ended = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
            total += cpu_seconds(member) + ended
    return total


def family_resident_mb(pid: int) -> float:
    total = 0.0
    for member in _family(pid):
        with suppress(*GONE):
            total += resident_mb(member)
    return total


def _family(pid: int) -> list[int]:
    """A process and its descendants: each thread has a list of the children that it started."""
    members = [pid]
    for member in members:
        with suppress(*GONE):
            for thread in Path(f"/proc/{member}/task").iterdir():
                with suppress(*GONE):
                    text = (thread / "children").read_text()
                    members += map(int, text.split())
    return members


class Neighbours:
    """How much of the machine everybody else takes, from now on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy, self._own = _busy_seconds(), family_cpu_seconds(os.getpid())

    def share(self) -> float:
        """Of all cores, without what this process and its descendants took."""
        others = _busy_seconds() - self._busy - family_cpu_seconds(os.getpid()) + self._own
        return max(0.0, others) / ((time.monotonic() - self._started) * (os.cpu_count() or 1))


def _busy_seconds() -> float:
    """Of all cores together: everything but idle time and waiting for disks."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")

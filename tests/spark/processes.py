"""What a process has started, and whether it is gone: Spark's processes end a while after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Running(NamedTuple):
    pid: int
    name: str
    """What the kernel calls it."""
    state: str
    parent: int
    session: int


def running() -> Iterator[Running]:
    """All processes that have not ended."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            begin, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        pid, _, name = begin.partition(" (")
        state, parent, _, session = rest.split()[:4]
        if state not in "ZX":
            yield Running(int(pid), name, state, int(parent), int(session))


def of_session(session: int) -> list[Running]:
    return [one for one in running() if one.session == session]


def is_stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return any(one.pid == pid and one.state == "T" for one in running())


def at_work_in(directory: Path) -> list[int]:
    """Processes whose directory is this one, or one in it."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            place = link.readlink()
        except OSError:
            continue  # it has just ended
        if place.is_relative_to(directory):
            found.append(int(link.parent.name))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""

"""What the system lets a process have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.machine.real.limits import OsLimits

MIB = 1024 * 1024
PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_memory_is_at_most_what_the_machine_has() -> None:
    assert 0 < OsLimits().memory() <= PHYSICAL


@pytest.mark.parametrize(
    ("groups", "files", "memory"),
    [
        ("0::/", {"memory.max": "1048576\n"}, MIB),
        ("0::/", {"memory.max": "max\n"}, PHYSICAL),
        ("0::/", {}, PHYSICAL),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "2097152"}, 2 * MIB),
        ("0::/a/b", {"a/b/memory.max": "1048576", "a/memory.max": "2097152"}, MIB),
        # In a container: the path is that of the host, the files are the container's own.
        ("0::/docker/1f2e", {"memory.max": "1048576"}, MIB),
        ("3:cpu,memory:/\n0::/", {"memory/memory.limit_in_bytes": "1048576"}, MIB),
        ("3:memory:/a\n", {"memory/a/memory.limit_in_bytes": "1048576"}, MIB),
        ("3:memory:/a\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, PHYSICAL),
        ("3:cpu:/\n2:name=systemd:/", {"memory.max": "1048576"}, PHYSICAL),
        (None, {"memory.max": "1048576"}, PHYSICAL),
    ],
)
def test_a_control_group_may_allow_less(
    tmp_path: Path, groups: str | None, files: Mapping[str, str], memory: int
) -> None:
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert OsLimits(tmp_path).memory() == memory

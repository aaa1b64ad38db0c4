"""The cleaner's checkpoint: what it cannot write for a while fails no directory."""

from __future__ import annotations

import errno

import pytest
from tests.support.machines import LoopThreads

from moldau.log.cleaner.checkpoint import CleanerCheckpoints
from moldau.log.files.checkpoints import read_offsets
from moldau.model import TopicPartition
from moldau.testing.disk import MemoryDisk

PATH = "/data/cleaner-offset-checkpoint"
A0 = TopicPartition("a", 0)


@pytest.mark.parametrize(
    ("number", "fails"),
    [(errno.ENOSPC, False), (errno.EMFILE, False), (errno.EIO, True)],
)
async def test_only_a_failed_disk_fails_its_directory(number: int, fails: bool) -> None:
    disk = MemoryDisk()
    disk.makedirs("/data")
    failed: list[str] = []
    checkpoints = CleanerCheckpoints(
        disk, LoopThreads().run, lambda directory, _: failed.append(directory)
    )
    await checkpoints.load("/data", [A0])
    disk.fail(number)
    await checkpoints.put("/data", A0, 10)
    assert failed == (["/data"] if fails else [])
    disk.heal()
    await checkpoints.put("/data", A0, 20)
    assert read_offsets(disk, PATH) == {A0: 20}

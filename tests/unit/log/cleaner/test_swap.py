"""Swapping in a cleaned segment, and what a start makes of a swap that was interrupted.

The start may be interrupted as well, at any of its operations: the next one must come to the same.
"""

from __future__ import annotations

import errno
import random

import pytest
from tests.support.partition_log import DIRECTORY, make_batch

from moldau.log.cleaner.messages import GroupCleaned
from moldau.log.cleaner.swap import remove_cleaned, swap_in
from moldau.log.recovery.leftovers import clean_up
from moldau.testing.disk import MemoryDisk

OLD_FILES = {
    "00000000000000000000.log": bytes(make_batch(10)),
    "00000000000000000000.index": b"old index",
    "00000000000000000000.timeindex": b"old timeindex",
    "00000000000000000000.txnindex": b"old txnindex",
    "00000000000000000010.log": bytes(make_batch(10, base_offset=10)),
    "00000000000000000010.index": b"old index",
    "00000000000000000010.timeindex": b"old timeindex",
    "00000000000000000010.snapshot": b"old snapshot",
}
NEW_FILES = {
    "00000000000000000000.log": bytes(make_batch(10, base_offset=10)),
    "00000000000000000000.index": b"new index",
    "00000000000000000000.timeindex": b"new timeindex",
    "00000000000000000000.txnindex": b"new txnindex",
}
OTHERS = {
    "00000000000000000020.log": bytes(make_batch(10, base_offset=20)),
    "00000000000000000020.snapshot": b"snapshot",
    "leader-epoch-checkpoint": b"0\n0\n",
}
GROUP = GroupCleaned(0, len(NEW_FILES["00000000000000000000.log"]), [0, 10])


def new_disk(**marked: dict[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk(random.Random(1))
    disk.makedirs(DIRECTORY)
    for suffix, files in marked.items():
        for name, content in files.items():
            end = "" if suffix == "plain" else f".{suffix}"
            disk.write(f"{DIRECTORY}/{name}{end}", content)
    return disk


def files(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)}


def without_snapshots(found: dict[str, bytes]) -> dict[str, bytes]:
    """Those of segments that are gone are removed later, when the log is opened."""
    return {name: content for name, content in found.items() if not name.endswith("0010.snapshot")}


def test_a_swap_leaves_the_new_segment_and_the_old_files_for_deletion() -> None:
    disk = new_disk(plain={**OLD_FILES, **OTHERS}, cleaned=NEW_FILES)
    deleted = swap_in(disk, DIRECTORY, GROUP)
    assert sorted(deleted) == sorted(f"{DIRECTORY}/{name}.deleted" for name in OLD_FILES)
    expected = {f"{name}.deleted": content for name, content in OLD_FILES.items()}
    assert files(disk) == {**expected, **NEW_FILES, **OTHERS}


def test_an_older_unfinished_file_goes_before_the_swap() -> None:
    disk = new_disk(plain={**OLD_FILES, **OTHERS}, cleaned={"00000000000000000020.log": b"new"})
    disk.write(f"{DIRECTORY}/00000000000000000010.index.cleaned", b"stale")
    swap_in(disk, DIRECTORY, GroupCleaned(20, 3, [20]))
    found = files(disk)
    assert found["00000000000000000020.log"] == b"new"
    assert not any(name.endswith((".cleaned", ".swap")) for name in found)


def test_what_nobody_will_swap_in_is_removed() -> None:
    disk = new_disk(plain=OTHERS, cleaned=NEW_FILES)
    remove_cleaned(disk, DIRECTORY)
    assert files(disk) == OTHERS


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        (
            {"plain": {**OLD_FILES, **OTHERS}, "cleaned": NEW_FILES},
            {**OLD_FILES, **OTHERS},
        ),
        (
            {
                "plain": {**OLD_FILES, **OTHERS},
                "swap": {k: v for k, v in NEW_FILES.items() if not k.endswith("txnindex")},
                "cleaned": {k: v for k, v in NEW_FILES.items() if k.endswith("txnindex")},
            },
            {**OLD_FILES, **OTHERS},
        ),
        (
            {"plain": {**OLD_FILES, **OTHERS}, "swap": NEW_FILES},
            {**NEW_FILES, **OTHERS},
        ),
        (
            {"plain": OTHERS, "swap": NEW_FILES, "deleted": OLD_FILES},
            {**NEW_FILES, **OTHERS},
        ),
        (
            {
                "plain": {**OTHERS, **{k: v for k, v in NEW_FILES.items() if k.endswith(".log")}},
                "swap": {k: v for k, v in NEW_FILES.items() if not k.endswith(".log")},
                "deleted": OLD_FILES,
            },
            {**NEW_FILES, **OTHERS},
        ),
        (
            {
                "plain": {**OLD_FILES, **OTHERS},
                "swap": NEW_FILES,
                "cleaned": {"00000000000000000020.log": b"half"},
            },
            {**NEW_FILES, **OTHERS},
        ),
    ],
    ids=[
        "not begun",
        "half named",
        "named",
        "old ones gone",
        "log in place",
        "the next group is being cleaned",
    ],
)
def test_a_start_finishes_or_undoes_and_may_be_interrupted_anywhere(
    marked: dict[str, dict[str, bytes]], expected: dict[str, bytes]
) -> None:
    for operations in range(200):
        disk = new_disk(**marked)
        before = disk.operations.total()
        disk.fail(errno.EIO, after=operations)
        try:
            clean_up(disk, DIRECTORY, disk.listdir(DIRECTORY))
        except OSError:
            met = True
        else:
            met = disk.operations.total() - before > operations
        disk.heal()
        remaining = clean_up(disk, DIRECTORY, disk.listdir(DIRECTORY))
        assert without_snapshots(files(disk)) == without_snapshots(expected), operations
        assert sorted(remaining) == sorted(disk.listdir(DIRECTORY))
        if not met:
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("operation", ["listdir", "sync_dir"])
def test_without_a_descriptor_everything_stays_as_it_was(operation: str) -> None:
    disk = new_disk(plain=OLD_FILES | OTHERS, cleaned=NEW_FILES)
    before = files(disk)
    disk.fail(errno.EMFILE, operations=frozenset({operation}))
    with pytest.raises(OSError, match="Too many open files"):
        swap_in(disk, DIRECTORY, GROUP)
    disk.heal()
    assert files(disk) == before
    swap_in(disk, DIRECTORY, GROUP)
    assert files(disk).items() >= NEW_FILES.items()


def test_a_swap_that_is_done_may_be_synced_later() -> None:
    disk = new_disk(plain=OLD_FILES | OTHERS, cleaned=NEW_FILES)
    disk.fail(errno.EMFILE, after=1, operations=frozenset({"sync_dir"}))
    assert swap_in(disk, DIRECTORY, GROUP)
    disk.heal()
    assert files(disk).items() >= NEW_FILES.items()

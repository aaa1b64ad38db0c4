"""Both disks behave alike; the real one leaves nothing open."""

from __future__ import annotations

import errno
import gc
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.machine.disk import Disk
from moldau.machine.real.disk import OsDisk
from moldau.testing.disk import MemoryDisk


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    if request.param == "os":
        yield OsDisk(), str(tmp_path)
    else:
        disk = MemoryDisk()
        disk.makedirs("/d")
        yield disk, "/d"


def test_a_file_grows_at_its_end_and_is_read_anywhere(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert file.size == 11
    assert file.pread(5, 6) == b"world"
    assert file.pread(100, 9) == b"ld"
    file.truncate(5)
    file.append(b"!")
    assert disk.read(f"{root}/a") == b"hello!"
    assert disk.size(f"{root}/a") == 6


def test_a_missing_file_is_an_error_unless_created(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.read(f"{root}/a")
    disk.remove(f"{root}/a")
    assert not disk.exists(f"{root}/a")


def test_a_deleted_file_stays_readable_for_those_who_hold_it(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append(b"data")
    disk.remove(f"{root}/a")
    assert file.pread(4, 0) == b"data"


def test_preallocation_does_not_change_the_size_that_is_used(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.preallocate(4096)
    assert file.size == 0
    file.append(b"x")
    assert file.size == 1
    file.truncate(1)
    assert disk.size(f"{root}/a") == 1


def test_a_mapping_is_the_file(place: tuple[Disk, str]) -> None:
    disk, root = place
    mapping = disk.map(f"{root}/a", 4096)
    mapping.buffer[0:4] = b"abcd"
    assert disk.read(f"{root}/a")[:5] == b"abcd\x00"
    assert disk.size(f"{root}/a") == 4096
    mapping.close()


def test_small_files_are_replaced_atomically(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.write_atomic(f"{root}/a", b"one")
    disk.write_atomic(f"{root}/a", b"two")
    assert disk.read(f"{root}/a") == b"two"
    assert disk.listdir(root) == ["a"]


def test_large_files_are_read_whole(place: tuple[Disk, str]) -> None:
    disk, root = place
    data = os.urandom(200_000)
    disk.write(f"{root}/a", data)
    assert disk.read(f"{root}/a") == data


def test_directories(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.makedirs(f"{root}/p/q")
    disk.makedirs(f"{root}/p/q")
    disk.write(f"{root}/p/q/f", b"x")
    assert disk.is_dir(f"{root}/p")
    assert not disk.is_dir(f"{root}/p/q/f")
    disk.rename(f"{root}/p", f"{root}/r")
    assert disk.read(f"{root}/r/q/f") == b"x"
    disk.sync_dir(root)
    disk.remove_tree(f"{root}/r")
    assert disk.listdir(root) == []


def test_a_lock_is_held_by_one(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    assert lock is not None
    assert disk.lock(f"{root}/.lock") is None
    lock.release()
    again = disk.lock(f"{root}/.lock")
    assert again is not None
    again.release()


def test_an_os_file_closes_with_its_last_reference(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    descriptor = file.fileno()
    assert descriptor is not None
    ours = os.fstat(descriptor)
    del file
    gc.collect()
    with suppress(OSError):  # it is closed, or its number is used again by another thread
        assert not os.path.samestat(os.fstat(descriptor), ours)


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite

    def short(fd: int, data: memoryview, position: int) -> int:
        return real(fd, memoryview(data)[:3], position)

    monkeypatch.setattr("moldau.machine.real.disk._pwrite", short)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.append(b"0123456789")
    assert file.size == 10
    assert file.pread(20, 0) == b"0123456789"


def test_a_failed_write_leaves_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    answers = [3, OSError(errno.ENOSPC, "full")]

    def failing(fd: int, data: memoryview, position: int) -> int:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return real(fd, memoryview(data)[:answer], position)

    file = OsDisk().open(str(tmp_path / "a"), create=True)
    monkeypatch.setattr("moldau.machine.real.disk._pwrite", failing)
    with pytest.raises(OSError, match="full"):
        file.append(b"0123456789")
    assert file.size == 0


# What only the test disk does ------------------------------------------------------------------


def durable_disk(seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(random.Random(seed))
    disk.makedirs("/d")
    disk.sync_dir("/")
    return disk


def test_synced_data_under_a_synced_name_survives_a_power_cut() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    file.append(b"kept")
    file.sync()
    disk.sync_dir("/d")
    file.append(b" lost or not")
    for _ in range(20):
        assert disk.power_cut().read("/d/a").startswith(b"kept")


def test_unsynced_writes_are_lost_torn_or_reordered() -> None:
    seen = set()
    for seed in range(200):
        disk = durable_disk(seed)
        file = disk.open("/d/a", create=True)
        disk.sync_dir("/d")
        file.append(b"11")
        file.append(b"22")
        seen.add(disk.power_cut().read("/d/a"))
    assert {b"", b"1122", b"11", b"1", b"\x00\x0022"} <= seen


def test_unsynced_names_may_be_lost_in_order() -> None:
    seen = set()
    for seed in range(50):
        disk = durable_disk(seed)
        disk.write("/d/a", b"")
        disk.write("/d/b", b"")
        seen.add(tuple(sorted(disk.power_cut().listdir("/d"))))
    assert seen == {(), ("a",), ("a", "b")}


def test_an_unsynced_removal_may_be_undone() -> None:
    seen = set()
    for seed in range(50):
        disk = durable_disk(seed)
        disk.write("/d/a", b"")
        disk.sync_dir("/d")
        disk.remove("/d/a")
        seen.add(disk.power_cut().exists("/d/a"))
    assert seen == {True, False}


def test_after_the_power_cut_the_old_machine_is_off() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    disk.power_cut()
    with pytest.raises(OSError, match="off"):
        file.append(b"x")


def test_failures_come_when_asked_for() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    disk.fail(errno.EIO, after=1, operations=frozenset({"append"}))
    file.append(b"x")
    file.sync()
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"y")
    disk.heal()
    file.truncate(1)
    file.append(b"z")
    assert disk.read("/d/a") == b"xz"


def test_a_full_disk_takes_what_fits_and_raises() -> None:
    disk = durable_disk()
    disk.capacity = 5
    file = disk.open("/d/a", create=True)
    file.append(b"123")
    with pytest.raises(OSError, match="No space"):
        file.append(b"4567")
    assert file.size == 3
    assert disk.read("/d/a") == b"12345"

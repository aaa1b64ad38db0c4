"""Both disks behave alike; the real one leaves nothing open."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable, Iterator
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


def test_a_closed_file_refuses(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append(b"data")
    file.close()
    file.close()
    for attempt in (
        lambda: file.append(b"more"),
        lambda: file.pread(4, 0),
        lambda: file.truncate(0),
        file.sync,
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number says it
            attempt()
        assert caught.value.errno == errno.EBADF
    assert disk.read(f"{root}/a") == b"data"


def test_several_may_have_a_file_open(place: tuple[Disk, str]) -> None:
    disk, root = place
    first = disk.open(f"{root}/a", create=True)
    first.append(b"12")
    second = disk.open(f"{root}/a")
    assert second.size == 2
    first.append(b"34")
    assert second.pread(10, 0) == b"1234"
    second.append(b"xy")  # at the end that it knows
    assert disk.read(f"{root}/a") == b"12xy"


def test_a_file_keeps_its_content_under_a_new_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append(b"one")
    disk.write(f"{root}/b", b"replaced")
    disk.rename(f"{root}/a", f"{root}/b")
    file.append(b"two")
    assert disk.read(f"{root}/b") == b"onetwo"
    assert not disk.exists(f"{root}/a")


def test_files_are_made_longer_and_shorter(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.write(f"{root}/a", b"12345")
    disk.truncate(f"{root}/a", 2)
    assert disk.read(f"{root}/a") == b"12"
    disk.truncate(f"{root}/a", 4)
    assert disk.read(f"{root}/a") == b"12\x00\x00"
    disk.write(f"{root}/a", b"x")
    assert disk.read(f"{root}/a") == b"x"


def test_everything_can_be_synced(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.append(b"x")
    file.sync()
    disk.sync(f"{root}/a")
    disk.sync_dir(root)
    disk.sync_filesystem(root)
    for sync in (disk.sync, disk.sync_dir):
        with pytest.raises(FileNotFoundError):
            sync(f"{root}/b")


def test_what_is_not_there_cannot_be_moved_listed_measured_or_removed_with_all_in_it(
    place: tuple[Disk, str],
) -> None:
    disk, root = place
    attempts: list[Callable[[], object]] = [
        lambda: disk.rename(f"{root}/a", f"{root}/b"),
        lambda: disk.listdir(f"{root}/a"),
        lambda: disk.size(f"{root}/a"),
        lambda: disk.modified_ms(f"{root}/a"),
        lambda: disk.remove_tree(f"{root}/a"),
        lambda: disk.truncate(f"{root}/a", 0),
        lambda: disk.write(f"{root}/a/b", b""),
        lambda: disk.open(f"{root}/a/b", create=True),
    ]
    for attempt in attempts:
        with pytest.raises(FileNotFoundError):
            attempt()


def test_a_disk_knows_how_full_it_is(place: tuple[Disk, str]) -> None:
    disk, root = place
    usage = disk.usage(root)
    assert 0 < usage.free <= usage.total


def test_a_file_knows_when_it_was_written(place: tuple[Disk, str]) -> None:
    disk, root = place
    if isinstance(disk, MemoryDisk):
        disk.now_ms = 1_700_000_000_000
    disk.write(f"{root}/a", b"x")
    written = disk.modified_ms(f"{root}/a")
    assert written > 1_600_000_000_000
    file = disk.open(f"{root}/b", create=True)
    file.append(b"x")
    assert disk.modified_ms(f"{root}/b") >= written


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

    monkeypatch.setattr(os, "pwrite", short)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.append(b"0123456789")
    assert file.size == 10
    assert file.pread(20, 0) == b"0123456789"


def test_a_failed_write_leaves_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    answers: list[int | OSError] = [3, OSError(errno.ENOSPC, "full")]

    def failing(fd: int, data: memoryview, position: int) -> int:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return real(fd, memoryview(data)[:answer], position)

    file = OsDisk().open(str(tmp_path / "a"), create=True)
    monkeypatch.setattr(os, "pwrite", failing)
    with pytest.raises(OSError, match="full"):
        file.append(b"0123456789")
    assert file.size == 0


def test_an_absolute_path_begins_at_the_root(place: tuple[Disk, str]) -> None:
    disk, root = place
    assert disk.absolute(f"{root}//a/") == f"{root}/a"
    assert disk.absolute("a/b").startswith("/")
    assert disk.absolute("a/b").endswith("/a/b")

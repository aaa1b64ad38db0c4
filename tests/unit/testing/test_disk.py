"""What only the test disk does: it loses power, fills up, fails, and outlives processes."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from moldau.testing.disk import MemoryDisk


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


# Processes that come and go ----------------------------------------------------------------------


def test_a_guard_hears_of_every_operation_before_it_happens() -> None:
    disk = durable_disk()
    heard: list[tuple[str, str]] = []
    disk.guard = lambda operation, path: heard.append((operation, path))
    file = disk.open("/d/a", create=True)
    file.append(b"1")
    file.pread(1, 0)
    file.sync()
    file.truncate(0)
    file.preallocate(10)
    disk.map("/d/m", 10)
    disk.write("/d/w", b"")
    disk.read("/d/w")
    disk.rename("/d/w", "/d/v")
    disk.remove("/d/v")
    disk.makedirs("/d/e")
    disk.listdir("/d/e")
    disk.sync_dir("/d")
    disk.lock("/d/l")
    assert heard == [
        ("open", "/d/a"),
        ("append", "/d/a"),
        ("read", "/d/a"),
        ("sync", "/d/a"),
        ("truncate", "/d/a"),
        ("preallocate", "/d/a"),
        ("map", "/d/m"),
        ("write", "/d/w"),
        ("read", "/d/w"),
        ("rename", "/d/w"),
        ("remove", "/d/v"),
        ("makedirs", "/d/e"),
        ("listdir", "/d/e"),
        ("sync_dir", "/d"),
        ("lock", "/d/l"),
    ]


def test_a_guard_may_keep_an_operation_from_happening() -> None:
    def refuse(operation: str, path: str) -> None:
        raise PermissionError(f"no {operation} on {path}")

    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    disk.guard = refuse
    attempts: list[Callable[[], object]] = [
        lambda: file.append(b"1"),
        lambda: disk.write("/d/b", b""),
        lambda: disk.remove("/d/a"),
        lambda: disk.lock("/d/c"),
    ]
    for attempt in attempts:
        with pytest.raises(PermissionError):
            attempt()
    disk.guard = None
    assert disk.listdir("/d") == ["a"]
    assert disk.size("/d/a") == 0


def test_the_next_life_finds_everything_but_nothing_open() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    file.append(b"page cache")
    assert disk.lock("/d/lock") is not None
    disk.next_life()
    with pytest.raises(OSError, match="its process has ended"):
        file.append(b"x")
    with pytest.raises(OSError, match="its process has ended"):
        file.pread(1, 0)
    assert disk.read("/d/a") == b"page cache"
    assert disk.lock("/d/lock") is not None


def test_an_old_lock_does_not_release_a_new_one() -> None:
    disk = durable_disk()
    old = disk.lock("/d/lock")
    assert old is not None
    disk.next_life()
    new = disk.lock("/d/lock")
    assert new is not None
    old.release()
    assert disk.lock("/d/lock") is None
    new.release()
    assert disk.lock("/d/lock") is not None


def test_stores_into_a_mapping_stay_with_the_file_but_not_beyond_the_process() -> None:
    disk = durable_disk()
    mapping = disk.map("/d/a", 8)
    mapping.buffer[:4] = b"1234"
    disk.next_life()
    mapping.buffer[4:] = b"5678"
    assert disk.read("/d/a") == b"1234\x00\x00\x00\x00"


def test_a_flipped_bit_is_there_for_good() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    disk.sync_dir("/d")
    file.append(b"\x00\x00\x00")
    disk.flip_bit("/d/a", 1, 3)
    assert file.pread(3, 0) == b"\x00\x08\x00"
    assert disk.power_cut().read("/d/a") == b"\x00\x08\x00"


def test_the_disk_knows_what_a_power_cut_may_take() -> None:
    disk = durable_disk()
    assert disk.unsynced() == []
    file = disk.open("/d/a", create=True)
    file.append(b"123")
    file.append(b"45")
    disk.makedirs("/d/e")
    disk.write("/d/e/b", b"6")
    assert disk.unsynced() == [("/d/a", 5), ("/d/e/b", 1)]
    file.sync()
    assert disk.unsynced() == [("/d/e/b", 1)]
    disk.sync_filesystem("/d")
    assert disk.unsynced() == []


def test_a_disk_that_is_off_keeps_what_it_had() -> None:
    disk = durable_disk()
    file = disk.open("/d/a", create=True)
    file.append(b"1")
    after = disk.power_cut()
    for _ in range(20):
        with pytest.raises(OSError, match="off"):
            file.append(b"2" * 100)
    if after.exists("/d/a"):
        assert b"2" not in after.read("/d/a")

"""Where new partitions go."""

from __future__ import annotations

import errno

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.placement import LogDirectories
from moldau.machine.disk import DiskUsage
from moldau.model import TopicPartition
from moldau.testing.disk import MemoryDisk

PATHS = ("/d1", "/d2", "/d3")


class Disks(MemoryDisk):
    """Three disks with different room."""

    def __init__(self) -> None:
        super().__init__()
        self.free = {"/d1": 10, "/d2": 30, "/d3": 20}

    def usage(self, path: str) -> DiskUsage:
        self.check("usage", path)
        return DiskUsage(100, self.free[path])


@pytest.fixture
def disks() -> Disks:
    return Disks()


@pytest.fixture
def directories(disks: Disks) -> LogDirectories:
    return LogDirectories(disks, PATHS)


def partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def place(directories: LogDirectories, number: int) -> str:
    directory = directories.for_new(partition(number), is_new=True)
    directories.add(partition(number), directory)
    return directory.path


def test_the_number_of_partitions_decides_and_then_the_room(directories: LogDirectories) -> None:
    directories.look_for_room()
    assert [place(directories, number) for number in range(6)] == ["/d2", "/d3", "/d1"] * 2
    directories.remove(partition(2))
    assert place(directories, 6) == "/d1", "the fewest, although it is the fullest"


def test_without_knowledge_of_room_the_order_of_the_setting_decides(
    directories: LogDirectories, disks: Disks
) -> None:
    disks.fail(errno.EIO, operations=frozenset({"usage"}))
    directories.look_for_room()
    assert [place(directories, number) for number in range(3)] == list(PATHS)


def test_a_reservation_counts(directories: LogDirectories) -> None:
    directories.reserve(directories["/d1"])
    assert place(directories, 0) == "/d2"
    directories.release(directories["/d1"])
    assert place(directories, 1) == "/d1"


def test_a_wanted_directory_wins_once(directories: LogDirectories) -> None:
    directories.prefer(partition(0), "/d3")
    assert place(directories, 0) == "/d3"
    directories.remove(partition(0))
    assert place(directories, 0) == "/d1"


def test_a_wanted_directory_that_is_offline_is_not_used(directories: LogDirectories) -> None:
    directories.prefer(partition(0), "/d3")
    directories["/d3"].offline = "it burns"
    assert place(directories, 0) == "/d1"


def test_only_so_many_wishes_are_remembered(directories: LogDirectories) -> None:
    for number in range(10_001):
        directories.prefer(partition(number), "/d3")
    assert place(directories, 0) == "/d1", "the oldest wish is forgotten"
    assert place(directories, 10_000) == "/d3"


def test_offline_and_tried_directories_are_left_out(directories: LogDirectories) -> None:
    directories["/d1"].offline = "it burns"
    assert place(directories, 0) == "/d2"
    found = directories.for_new(partition(1), is_new=True, tried={"/d3"})
    assert found.path == "/d2"
    with pytest.raises(KafkaError) as error:
        directories.for_new(partition(1), is_new=True, tried={"/d2", "/d3"})
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_may_lie_in_an_unread_directory_is_not_begun_anew(
    directories: LogDirectories,
) -> None:
    directories.unread.append("/d2")
    with pytest.raises(KafkaError, match="could not be read"):
        directories.for_new(partition(0), is_new=False)
    assert place(directories, 0) == "/d1"


def test_a_cordoned_directory_gets_nothing_until_all_are(directories: LogDirectories) -> None:
    directories.cordon(["/d1", "/d2"])
    assert [place(directories, number) for number in range(3)] == ["/d3"] * 3
    directories.cordon(PATHS)
    assert place(directories, 3) == "/d1", "who is sent here all the same is served"
    directories.cordon([])
    assert place(directories, 4) == "/d2"

"""Where new partitions go."""

from __future__ import annotations

import errno

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.placement import Placement
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
def directories(disks: Disks) -> dict[str, LogDirectory]:
    return {path: LogDirectory(disks, path) for path in PATHS}


@pytest.fixture
def placement(directories: dict[str, LogDirectory]) -> Placement:
    return Placement(directories)


def partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def place(placement: Placement, number: int) -> str:
    directory = placement.for_new(partition(number), is_new=True)
    placement.add(partition(number), directory)
    return directory.path


def test_the_number_of_partitions_decides_and_then_the_room(placement: Placement) -> None:
    placement.look_for_room()
    assert [place(placement, number) for number in range(6)] == ["/d2", "/d3", "/d1"] * 2
    placement.remove(partition(2))
    assert place(placement, 6) == "/d1", "the fewest, although it is the fullest"


def test_without_knowledge_of_room_the_order_of_the_setting_decides(
    placement: Placement, disks: Disks
) -> None:
    disks.fail(errno.EIO, operations=frozenset({"usage"}))
    placement.look_for_room()
    assert [place(placement, number) for number in range(3)] == list(PATHS)


def test_a_reservation_counts(placement: Placement, directories: dict[str, LogDirectory]) -> None:
    placement.reserve(directories["/d1"])
    assert place(placement, 0) == "/d2"
    placement.release(directories["/d1"])
    assert place(placement, 1) == "/d1"


def test_a_wanted_directory_wins_once(placement: Placement) -> None:
    placement.prefer(partition(0), "/d3")
    assert place(placement, 0) == "/d3"
    placement.remove(partition(0))
    assert place(placement, 0) == "/d1"


def test_a_wanted_directory_that_is_offline_is_not_used(
    placement: Placement, directories: dict[str, LogDirectory]
) -> None:
    placement.prefer(partition(0), "/d3")
    directories["/d3"].offline = "it burns"
    assert place(placement, 0) == "/d1"


def test_only_so_many_wishes_are_remembered(placement: Placement) -> None:
    for number in range(10_001):
        placement.prefer(partition(number), "/d3")
    assert place(placement, 0) == "/d1", "the oldest wish is forgotten"
    assert place(placement, 10_000) == "/d3"


def test_partitions_that_can_never_be_are_not_remembered(placement: Placement) -> None:
    for length in (249, 250, 32_767):
        placement.prefer(TopicPartition("t" * length, 0), "/d3")
    assert [len(topic) for topic, _ in placement._preferred] == [249]


def test_offline_and_tried_directories_are_left_out(
    placement: Placement, directories: dict[str, LogDirectory]
) -> None:
    directories["/d1"].offline = "it burns"
    assert place(placement, 0) == "/d2"
    found = placement.for_new(partition(1), is_new=True, tried={"/d3"})
    assert found.path == "/d2"
    with pytest.raises(KafkaError) as error:
        placement.for_new(partition(1), is_new=True, tried={"/d2", "/d3"})
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_may_lie_in_an_unread_directory_is_not_begun_anew(
    placement: Placement,
) -> None:
    placement.unread.append("/d2")
    with pytest.raises(KafkaError, match="could not be read"):
        placement.for_new(partition(0), is_new=False)
    assert place(placement, 0) == "/d1"


def test_a_cordoned_directory_gets_nothing_until_all_are(
    placement: Placement, directories: dict[str, LogDirectory]
) -> None:
    directories["/d1"].cordoned = directories["/d2"].cordoned = True
    assert [place(placement, number) for number in range(3)] == ["/d3"] * 3
    directories["/d3"].cordoned = True
    assert place(placement, 3) == "/d1", "who is sent here all the same is served"
    for directory in directories.values():
        directory.cordoned = False
    assert place(placement, 4) == "/d2"

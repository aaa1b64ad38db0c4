from __future__ import annotations

from uuid import UUID

import pytest

from moldau.log.files import names
from moldau.model import TopicPartition


def test_segment_files_are_named_by_twenty_digits() -> None:
    assert names.file_name(42, names.LOG_SUFFIX) == "00000000000000000042.log"
    assert names.parse_file_name("00000000000000000042.timeindex") == (42, ".timeindex", "")


def test_marks_of_interrupted_work_are_recognised() -> None:
    assert names.parse_file_name("00000000000000000042.log.swap") == (42, ".log", ".swap")
    assert names.parse_file_name("00000000000000000042.index.deleted") == (42, ".index", ".deleted")


@pytest.mark.parametrize("name", ["42.log", "leader-epoch-checkpoint", "0" * 20 + ".txt"])
def test_other_files_are_not_segment_files(name: str) -> None:
    assert names.parse_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", (TopicPartition("orders", 0), "")),
        ("my-topic.v1-12", (TopicPartition("my-topic.v1", 12), "")),
        ("a-b-3.0123abcd-delete", (TopicPartition("a-b", 3), "-delete")),
        ("a-3.0123abcd-stray", (TopicPartition("a", 3), "-stray")),
        ("a-3.0123abcd-future", (TopicPartition("a", 3), "-future")),
        ("orders", None),
        ("orders-x", None),
        ("-1", None),
        ("orders-delete", None),
        ("lost+found", None),
    ],
)
def test_directory_names_give_their_partition(
    name: str, expected: tuple[TopicPartition, str] | None
) -> None:
    assert names.parse_dir_name(name) == expected


def test_a_directory_marked_for_deletion_fits_a_file_name() -> None:
    partition = TopicPartition("t" * 249, 12345)
    name = names.marked_dir_name(partition, UUID(int=7), names.DELETE_DIR_SUFFIX)
    assert len(name) == 255
    parsed = names.parse_dir_name(name)
    assert parsed is not None
    assert parsed[0].partition == 12345
    assert parsed[1] == "-delete"

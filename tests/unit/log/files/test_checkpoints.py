"""Checkpoints, epochs, snapshots and metadata files."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.log.errors import CorruptCheckpointError, CorruptSnapshotError
from moldau.log.files.checkpoints import read_offsets, write_offsets
from moldau.log.files.meta_properties import (
    MetaProperties,
)
from moldau.log.files.names import REPLACED_LOGS
from moldau.log.files.partition_metadata import (
    decode_uuid,
    encode_partition_metadata,
    encode_uuid,
    read_partition_metadata,
)
from moldau.log.files.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from moldau.log.files.replaced_logs import read_replaced
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.model import TopicPartition
from moldau.testing.disk import MemoryDisk

PATH = "/data/recovery-point-offset-checkpoint"


def test_offsets_are_written_as_kafka_does(disk: MemoryDisk) -> None:
    offsets = {TopicPartition("a-b", 0): 5, TopicPartition("c", 11): 0}
    write_offsets(disk, PATH, offsets)
    assert disk.read(PATH) == b"0\n2\na-b 0 5\nc 11 0\n"
    assert read_offsets(disk, PATH) == offsets


def test_a_missing_or_empty_checkpoint_has_no_entries(disk: MemoryDisk) -> None:
    assert read_offsets(disk, PATH) == {}
    disk.write(PATH, b"")
    assert read_offsets(disk, PATH) == {}


@pytest.mark.parametrize(
    "content",
    [b"1\n0\n", b"0\n2\na 0 1\n", b"0\nx\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\n\xfe\n"],
)
def test_a_damaged_checkpoint_is_noticed(disk: MemoryDisk, content: bytes) -> None:
    disk.write(PATH, content)
    with pytest.raises(CorruptCheckpointError):
        read_offsets(disk, PATH)


# Leader epochs -----------------------------------------------------------------------------------


def test_epochs_are_written_as_kafka_does() -> None:
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 25)
    assert epochs.encode() == b"0\n2\n0 0\n3 25\n"
    assert LeaderEpochs.decode(epochs.encode(), "f").entries == epochs.entries


def test_a_later_append_of_the_same_epoch_changes_nothing() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 10)
    epochs.dirty = False
    epochs.assign(1, 20)
    assert epochs.entries == [(1, 10)]
    assert not epochs.dirty


def test_an_epoch_drops_what_contradicts_it() -> None:
    epochs = LeaderEpochs()
    for epoch, start in ((1, 10), (2, 20), (4, 30)):
        epochs.assign(epoch, start)
    epochs.assign(3, 25)
    assert epochs.entries == [(1, 10), (2, 20), (3, 25)]
    epochs.assign(5, 20)
    assert epochs.entries == [(1, 10), (5, 20)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 20)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (4, 99)),
        (5, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch(epoch: int, expected: tuple[int, int]) -> None:
    epochs = LeaderEpochs()
    for number, start in ((1, 10), (2, 20), (4, 30)):
        epochs.assign(number, start)
    assert epochs.end_offset_for(epoch, 99) == expected


def test_the_epoch_of_an_offset() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 10)
    epochs.assign(4, 30)
    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 29, 30, 99)] == [None, 1, 1, 4, 4]


def test_epochs_follow_the_ends_of_the_log() -> None:
    epochs = LeaderEpochs()
    for number, start in ((1, 10), (2, 20), (4, 30)):
        epochs.assign(number, start)
    epochs.truncate_from_start(25)
    assert epochs.entries == [(2, 25), (4, 30)]
    epochs.truncate_from_end(30)
    assert epochs.entries == [(2, 25)]
    assert epochs.latest_epoch == 2
    epochs.truncate_from_end(0)
    assert epochs.latest_epoch == -1
    assert len(epochs) == 0


def test_damaged_epochs_are_noticed() -> None:
    with pytest.raises(CorruptCheckpointError):
        LeaderEpochs.decode(b"0\n1\n1\n", "f")


# Producer snapshots ------------------------------------------------------------------------------

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)


@given(
    st.lists(
        st.builds(SnapshotEntry, int64, int16, int32, int64, int32, int64, int32, int64), max_size=5
    )
)
def test_snapshots_come_back(entries: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


def test_a_snapshot_written_by_apache_kafka_is_read_and_written_alike() -> None:
    data = bytes.fromhex(
        "0001f7d1117600000001000000000000000000000000176f000000000000176f"
        "00000013000001a1de7329eeffffffffffffffffffffffff"
    )
    (entry,) = decode_snapshot(data)
    assert (entry.producer_id, entry.epoch, entry.last_sequence) == (0, 0, 5999)
    assert (entry.last_offset, entry.offset_delta, entry.txn_first_offset) == (5999, 19, -1)
    assert encode_snapshot([entry]) == data


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:5], lambda d: b"\x00\x02" + d[2:], lambda d: d + b"x"]
)
def test_a_damaged_snapshot_is_noticed(damage: object) -> None:
    data = encode_snapshot([SnapshotEntry(1, 0, 5, 5, 0, 1, -1, -1)])
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(damage(data))  # type: ignore[operator]


# Metadata ----------------------------------------------------------------------------------------


def test_a_topic_id_is_written_in_base64(disk: MemoryDisk) -> None:
    topic_id = UUID("9ffd31c5-745f-481f-b4ba-92734e3349ee")
    content = encode_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: n_0xxXRfSB-0upJzTjNJ7g"
    disk.write("/data/t-0/partition.metadata", content)
    assert read_partition_metadata(disk, "/data/t-0") == topic_id


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0\n", b"version: x\ntopic_id: a", b"version: 0\ntopic_id: a"],
)
def test_damaged_partition_metadata_is_noticed(disk: MemoryDisk, content: bytes) -> None:
    disk.write("/data/t-0/partition.metadata", content)
    with pytest.raises(CorruptCheckpointError):
        read_partition_metadata(disk, "/data/t-0")


@given(st.uuids())
def test_uuids_come_back(value: UUID) -> None:
    assert decode_uuid(encode_uuid(value)) == value
    assert len(encode_uuid(value)) == 22


def test_meta_properties_of_apache_kafka_are_read() -> None:
    text = (
        b"#\n#Sun Nov 15 09:04:02 UTC 2026\nnode.id=1\ndirectory.id=e8-VzGay6SvQ0iwyU3dusw\n"
        b"version=1\ncluster.id=B8gbd6OWS_iDYQaqF4HJqw\n"
    )
    properties = MetaProperties.decode(text, "f")
    assert properties.node_id == 1
    assert properties.cluster_id == "B8gbd6OWS_iDYQaqF4HJqw"
    assert MetaProperties.decode(properties.encode(), "f") == properties


def test_meta_properties_of_the_zookeeper_days_are_read() -> None:
    properties = MetaProperties.decode(b"version=0\nbroker.id=3\ncluster.id=abc\n", "f")
    assert properties == MetaProperties("abc", 3, None, 0)


@pytest.mark.parametrize(
    "text", [b"version=7\n", b"version=1\nnode.id=x\n", b"version=1\ndirectory.id=x\n"]
)
def test_damaged_meta_properties_are_noticed(text: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        MetaProperties.decode(text, "f")


NO_TEXT = b'{"version": 0, "replaced": [{"topic": "\xff", "partition": 0, "directory": "d"}]}'


@pytest.mark.parametrize("content", [b"", b"{", b"[]", NO_TEXT])
def test_a_damaged_list_of_replaced_logs_is_noticed(disk: MemoryDisk, content: bytes) -> None:
    assert read_replaced(disk, "/data") == {}
    disk.write(f"/data/{REPLACED_LOGS}", content)
    with pytest.raises(CorruptCheckpointError, match=REPLACED_LOGS):
        read_replaced(disk, "/data")

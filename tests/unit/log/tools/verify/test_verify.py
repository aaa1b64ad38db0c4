"""Offline verification: a good directory gives nothing, every planted fault is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.partition_log import NOW_MS, close_cleanly, make_batch, open_log, verified

from moldau.config.values.topic import TopicConfig
from moldau.log import AppendOrigin
from moldau.log.files.partition_metadata import encode_partition_metadata
from moldau.log.tools.verify import DirectoryInUseError, Finding, Level, Verification
from moldau.machine.real.disk import OsDisk
from moldau.records.batch import HEADER_SIZE, iter_headers, write_crc
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker

CONFIG = TopicConfig(segment_bytes=900, index_interval_bytes=100)
END = 41
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory after a clean stop, with one partition of several segments."""
    data = tmp_path / "data"
    partition = data / "t-0"
    partition.mkdir(parents=True)
    log = open_log(OsDisk(), CONFIG, directory=str(partition))
    verified(log, 3)
    for number in range(20):
        batch = make_batch(
            2,
            size=40,
            compression=Compression.LZ4 if number % 2 else Compression.NONE,
            timestamps=(NOW_MS + number,),
            producer_id=3,
            sequence=number * 2,
            transactional=True,
        )
        log.append_as_leader(batch, number // 10, NOW_MS)
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=3, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    log.append_as_leader(memoryview(marker), 1, NOW_MS, origin=AppendOrigin.COORDINATOR)
    close_cleanly(log)
    (partition / "partition.metadata").write_bytes(encode_partition_metadata(uuid4()))
    for name in CHECKPOINTS:
        offset = 0 if name.startswith("log-start") else END
        (data / name).write_text(f"0\n1\nt 0 {offset}\n")
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (data / ".lock").touch()
    assert len(list(partition.glob("*.log"))) > 2
    return data


def verify(data: Path, *, deep: bool = False) -> list[Finding]:
    return list(Verification([str(data)], deep=deep).run())


def segments(data: Path) -> list[Path]:
    return sorted((data / "t-0").glob("*.log"))


def patch(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize("deep", [False, True])
def test_a_good_directory_gives_nothing(data: Path, deep: bool) -> None:
    verification = Verification([str(data)], deep=deep)
    read: list[int] = []
    assert list(verification.run(read.append)) == []
    totals = verification.totals
    assert (totals.partitions, totals.batches, totals.records) == (1, 21, 41)
    assert totals.segments == len(segments(data))
    assert totals.bytes == sum(read) == sum(path.stat().st_size for path in segments(data))


def test_one_partition_can_be_verified_alone(data: Path) -> None:
    assert verify(data / "t-0") == []
    patch(segments(data)[0], 80, b"\xff")
    assert len(verify(data / "t-0")) == 1


BATCH = 0  # the first batch of a segment


def bad_crc(data: Path) -> Path:
    patch(segments(data)[1], 75, b"\xff\xff\xff")
    return segments(data)[1]


def bad_offsets(data: Path) -> Path:
    patch(segments(data)[1], 0, struct.pack(">q", 1))
    return segments(data)[1]


def cut_off_in_the_middle(data: Path) -> Path:
    path = segments(data)[0]
    path.write_bytes(path.read_bytes()[:-5])
    return path


def torn_tail(data: Path) -> Path:
    path = segments(data)[-1]
    path.write_bytes(path.read_bytes() + b"\x00\x01garbage")
    return path


def wrong_magic(data: Path) -> Path:
    patch(segments(data)[1], 16, b"\x07")
    return segments(data)[1]


def index(data: Path, suffix: str, number: int = 0) -> Path:
    return segments(data)[number].with_suffix(suffix)


def index_not_whole(data: Path) -> Path:
    path = index(data, ".index")
    path.write_bytes(path.read_bytes() + b"123")
    return path


def index_to_nowhere(data: Path) -> Path:
    path = index(data, ".index")
    patch(path, 4, struct.pack(">i", 7))
    return path


def index_beyond_the_end(data: Path) -> Path:
    path = index(data, ".index")
    path.write_bytes(path.read_bytes() + struct.pack(">ii", 5000, 1_000_000))
    return path


def index_not_growing(data: Path) -> Path:
    path = index(data, ".index")
    entries = path.read_bytes()
    assert len(entries) >= 16
    path.write_bytes(entries[8:16] + entries[:8] + entries[16:])
    return path


def index_missing(data: Path) -> Path:
    path = index(data, ".index")
    path.unlink()
    return path


def index_without_a_segment(data: Path) -> Path:
    path = data / "t-0" / "00000000000000009999.timeindex"
    path.touch()
    return path


def wrong_timestamp(data: Path) -> Path:
    path = index(data, ".timeindex")
    patch(path, 0, struct.pack(">q", NOW_MS + 77))
    return path


def largest_timestamp_missing(data: Path) -> Path:
    path = index(data, ".timeindex", 1)
    entries = path.read_bytes()
    path.write_bytes(entries[:-12])
    return path


def time_index_beyond_the_end(data: Path) -> Path:
    path = index(data, ".timeindex")
    path.write_bytes(path.read_bytes() + struct.pack(">qi", NOW_MS + 9999, 5000))
    return path


def transaction_index(data: Path) -> Path:
    (path,) = (data / "t-0").glob("*.txnindex")
    return path


def broken_transaction_index(data: Path) -> Path:
    path = transaction_index(data)
    path.write_bytes(path.read_bytes() + b"half")
    return path


def transaction_that_ends_nowhere(data: Path) -> Path:
    path = transaction_index(data)
    patch(path, 2 + 16, struct.pack(">q", 4000))
    return path


def transaction_without_a_marker(data: Path) -> Path:
    path = transaction_index(data)
    base = int(path.name[:20])
    patch(path, 2 + 8, struct.pack(">qq", base, base))
    return path


def epoch_checkpoint_that_is_none(data: Path) -> Path:
    path = data / "t-0" / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n")
    return path


def wrong_epoch(data: Path) -> Path:
    path = data / "t-0" / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 30\n")
    return path


def epoch_beyond_the_end(data: Path) -> Path:
    path = data / "t-0" / "leader-epoch-checkpoint"
    path.write_text("0\n3\n0 0\n1 20\n2 4000\n")
    return path


def snapshot(data: Path) -> Path:
    return max((data / "t-0").glob("*.snapshot"))


def broken_snapshot(data: Path) -> Path:
    patch(snapshot(data), 12, b"\xff\xff")
    return snapshot(data)


def snapshot_beyond_the_end(data: Path) -> Path:
    path = data / "t-0" / "00000000000000005000.snapshot"
    path.write_bytes(snapshot(data).read_bytes())
    return path


def snapshot_of_another_offset(data: Path) -> Path:
    first = min((data / "t-0").glob("*.snapshot"))
    first.write_bytes(snapshot(data).read_bytes())
    return first


def partition_metadata(data: Path) -> Path:
    path = data / "t-0" / "partition.metadata"
    path.write_text("version: 0\nwhat is this\n")
    return path


def meta_properties(data: Path) -> Path:
    path = data / "meta.properties"
    path.write_text("version=7\n")
    return path


def broken_checkpoint(data: Path) -> Path:
    path = data / CHECKPOINTS[0]
    path.write_text("0\n9\nt 0 41\n")
    return path


def checkpoint_beyond_the_end(name: str) -> Callable[[Path], Path]:
    def plant(data: Path) -> Path:
        path = data / name
        path.write_text(f"0\n1\nt 0 {END + 1}\n")
        return path

    plant.__name__ = f"{name}_beyond_the_end"
    return plant


FAULTS: list[tuple[Callable[[Path], Path], str]] = [
    (bad_crc, "CRC of the batch is wrong"),
    (bad_offsets, "begins at offset 1, before"),
    (cut_off_in_the_middle, "not a record batch"),
    (torn_tail, "not a record batch"),
    (wrong_magic, "not a record batch"),
    (index_not_whole, "no whole entry"),
    (index_to_nowhere, "no batch begins"),
    (index_beyond_the_end, "beyond the"),
    (index_not_growing, "does not grow"),
    (index_missing, "is missing"),
    (index_without_a_segment, "belongs to no segment"),
    (wrong_timestamp, "the largest timestamp is"),
    (largest_timestamp_missing, "is missing"),
    (time_index_beyond_the_end, "is not in the log"),
    (broken_transaction_index, "are no entry"),
    (transaction_that_ends_nowhere, "ends beyond the segment"),
    (transaction_without_a_marker, "no marker"),
    (epoch_checkpoint_that_is_none, "announces 2 entries"),
    (wrong_epoch, "epoch 0 is said to be in force where epoch 1 wrote"),
    (epoch_beyond_the_end, "begins beyond the end"),
    (broken_snapshot, "CRC of the producer snapshot"),
    (snapshot_beyond_the_end, "the log ends at 41"),
    (snapshot_of_another_offset, "beyond the snapshot"),
    (partition_metadata, "bad topic id line"),
    (meta_properties, "unknown version 7"),
    (broken_checkpoint, "announces 9 entries"),
    *((checkpoint_beyond_the_end(name), "but its log ends at 41") for name in CHECKPOINTS),
]


@pytest.mark.parametrize(("plant", "words"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_planted_fault_is_named_with_its_file(
    data: Path, plant: Callable[[Path], Path], words: str
) -> None:
    path = plant(data)
    found = verify(data)
    about = [one for one in found if one.path == str(path) and words in one.problem]
    assert about, found
    assert about[0].level is Level.DAMAGE
    assert about[0].at_start


def test_a_finding_says_where_and_what_a_start_does(data: Path) -> None:
    path = bad_crc(data)
    (found,) = verify(data)
    assert (found.position, found.offset) == (0, int(path.name[:20]))
    assert "served as it is" in found.at_start, "after a clean stop nothing is read"
    (data / ".kafka_cleanshutdown").unlink()
    (data / CHECKPOINTS[0]).write_text("0\n1\nt 0 0\n")
    (found,) = verify(data)
    assert "the log is cut here" in found.at_start


def test_deep_looks_into_the_records(data: Path) -> None:
    path = segments(data)[0]
    content = path.read_bytes()
    position, header = next(iter(iter_headers(content)))
    patch(path, position + HEADER_SIZE, b"\x7f")  # the length of the first record
    broken = bytearray(path.read_bytes())
    write_crc(broken, position, header.size)
    path.write_bytes(broken)
    assert verify(data) == []
    (found,) = verify(data, deep=True)
    assert "records cannot be read" in found.problem


def test_after_a_crash_a_torn_end_is_only_noted(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    torn_tail(data)
    (found,) = verify(data)
    assert found.level is Level.NOTE
    assert "the log ends at offset 41" in found.at_start
    segments(data)[-1].write_bytes(b"")
    assert Level.DAMAGE in {one.level for one in verify(data)}, "that is more than a crash takes"


def test_leftovers_are_noted(data: Path) -> None:
    for name in ("a.log.deleted", "b.log.cleaned", "c.log.swap"):
        (data / "t-0" / f"0000000000000000000{'abc'.index(name[0])}{name[1:]}").touch()
    for name in ("old-1.0123-delete", "new-1.0123-future", "lost-1.0123-stray"):
        (data / name).mkdir()
    (data / "gone-5").mkdir()
    (data / "replaced-logs.json").write_text(
        '{"version":0,"replaced":[{"topic":"t","partition":0,"directory":"/d"}]}'
    )
    found = verify(data)
    assert {one.level for one in found} == {Level.NOTE}
    assert len(found) == 7


def test_a_partition_in_two_directories_is_named(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "t-0"
    other.mkdir(parents=True)
    (other / "partition.metadata").write_bytes(encode_partition_metadata(uuid4()))
    found = list(Verification([str(data), str(other.parent)]).run())
    problems = " ".join(one.problem for one in found)
    assert f"t-0 is in {data / 't-0'}, too" in problems
    assert "its topic id is" in problems


def test_a_log_that_the_checkpoint_knows_and_is_not_there_is_noted(data: Path) -> None:
    (data / CHECKPOINTS[0]).write_text("0\n2\nt 0 41\nlost 3 5\n")
    (found,) = verify(data)
    assert "lost-3" in found.problem
    assert found.level is Level.NOTE


def test_a_directory_in_use_is_refused(data: Path) -> None:
    lock = OsDisk().lock(str(data / ".lock"))
    assert lock is not None
    with pytest.raises(DirectoryInUseError, match="a broker is using"):
        verify(data)
    with pytest.raises(DirectoryInUseError):
        verify(data / "t-0")
    lock.release()
    assert verify(data) == []


def test_what_cannot_be_read_is_told(data: Path) -> None:
    path = index(data, ".timeindex", 1)
    path.unlink()
    path.mkdir()
    (data / "other-0").mkdir()
    found = verify(data)
    assert [(one.path, one.problem[:14]) for one in found] == [
        (str(data / "t-0"), "cannot be read")
    ]


def test_a_snapshot_knows_of_batches_that_compaction_took(data: Path, tmp_path: Path) -> None:
    taken = int(segments(data)[1].name[:20]) - 1  # what the snapshot there names as the last
    whole = b"".join(path.read_bytes() for path in segments(data))
    partition = tmp_path / "compacted" / "t-0"
    partition.mkdir(parents=True)
    log = open_log(OsDisk(), CONFIG, directory=str(partition))
    for position, header in iter_headers(whole):
        if header.last_offset != taken:
            batch = bytearray(whole[position : position + header.size])
            log.append_as_follower(memoryview(batch), NOW_MS)
    close_cleanly(log)
    for path in partition.glob("*.snapshot"):
        path.unlink()
    snapshots = list((data / "t-0").glob("*.snapshot"))
    assert any(int(path.name[:20]) == taken + 1 for path in snapshots)
    for path in snapshots:
        (partition / path.name).write_bytes(path.read_bytes())
    found = verify(tmp_path / "compacted")
    assert [one for one in found if one.path.endswith(".snapshot")] == []

"""Log files as rows."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.partition_log import NOW_MS, close_cleanly, make_batch, open_log, verified

from moldau.config.values.topic import TopicConfig
from moldau.log import AppendOrigin
from moldau.log.files.partition_metadata import encode_partition_metadata
from moldau.log.tools.dump import BatchRow, FileDump, RecordRow, dump_file, dump_paths
from moldau.machine.real.disk import OsDisk
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "t-0"
    path.mkdir(parents=True)
    log = open_log(
        OsDisk(), TopicConfig(segment_bytes=2000, index_interval_bytes=100), directory=str(path)
    )
    verified(log, 3)
    for number in range(20):
        log.append_as_leader(
            make_batch(
                2,
                compression=Compression.LZ4,
                timestamps=(NOW_MS + number,),
                producer_id=3,
                sequence=number * 2,
                transactional=True,
            ),
            number // 10,
            NOW_MS,
        )
    marker = build_end_txn_marker(
        ControlType.ABORT,
        producer_id=3,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    log.append_as_leader(memoryview(marker), 1, NOW_MS, origin=AppendOrigin.COORDINATOR)
    close_cleanly(log)
    (path / "partition.metadata").write_bytes(encode_partition_metadata(uuid4()))
    (path.parent / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 41\n")
    (path.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (path / "notes.txt").write_text("not ours")
    return path


def by_kind(dumps: list[FileDump]) -> dict[str, list[FileDump]]:
    kinds: dict[str, list[FileDump]] = {}
    for dump in dumps:
        kinds.setdefault(dump.kind, []).append(dump)
    return kinds


def test_everything_in_a_directory_is_dumped_without_complaint(directory: Path) -> None:
    dumps = list(dump_paths([str(directory.parent)], records=True, verify_indexes=True))
    rows = {dump.path: list(dump.rows) for dump in dumps}
    assert [dump.problems for dump in dumps if dump.problems] == []
    kinds = by_kind(dumps)
    assert set(kinds) == {
        "log",
        "index",
        "timeindex",
        "txnindex",
        "snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "recovery-point-offset-checkpoint",
        "meta.properties",
    }
    records = [row for rows in rows.values() for row in rows if isinstance(row, RecordRow)]
    assert [record.offset for record in records] == list(range(41))
    assert records[-1].control == "ABORT"
    assert records[5].sequence == 5
    assert list(rows[kinds["leader-epoch-checkpoint"][0].path]) == [(0, 0), (1, 20)]
    assert list(rows[kinds["recovery-point-offset-checkpoint"][0].path]) == [("t", 0, 41)]


def test_batches_come_without_records_unless_asked(directory: Path) -> None:
    dump = dump_file(str(directory / f"{0:020d}.log"))
    assert dump is not None
    first = next(dump.rows)
    assert isinstance(first, BatchRow)
    assert (first.base_offset, first.last_offset, first.position) == (0, 1, 0)
    assert (first.compression, first.timestamp_type, first.is_valid) == ("lz4", "CreateTime", True)
    assert all(isinstance(row, BatchRow) for row in dump.rows)


def test_damage_is_reported_beside_the_rows(directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(bytes(data) + b"rest")
    dump = dump_file(str(path), records=True)
    assert dump is not None
    batches = [row for row in dump.rows if isinstance(row, BatchRow)]
    assert not batches[0].is_valid
    assert batches[1].is_valid
    assert any("CRC" in problem for problem in dump.problems)
    assert any("4 bytes" in problem for problem in dump.problems)


def test_a_preallocated_index_is_recognised(directory: Path) -> None:
    path = directory / f"{0:020d}.index"
    entries = len(path.read_bytes()) // 8
    with path.open("ab") as file:
        file.truncate(80_000)
    dump = dump_file(str(path), verify_indexes=True)
    assert dump is not None
    assert len(list(dump.rows)) == entries
    assert [problem for problem in dump.problems if "preallocated" not in problem] == []


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_does_not_fit_its_log_is_reported(directory: Path, suffix: str) -> None:
    path = directory / f"{0:020d}.{suffix}"
    data = bytearray(path.read_bytes())
    data[6] ^= 1
    path.write_bytes(data)
    dump = dump_file(str(path), verify_indexes=True)
    assert dump is not None
    list(dump.rows)
    assert dump.problems
    (directory / f"{0:020d}.log").unlink()
    dump = dump_file(str(path), verify_indexes=True)
    assert dump is not None
    list(dump.rows)
    assert any("no log file" in problem for problem in dump.problems)


@pytest.mark.parametrize(
    "name",
    [
        f"{9:020d}.snapshot",
        "leader-epoch-checkpoint",
        "log-start-offset-checkpoint",
        "partition.metadata",
    ],
)
def test_unreadable_files_are_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"7\n7\n")
    dump = dump_file(str(path))
    assert dump is not None
    assert list(dump.rows) == []
    assert dump.problems


def test_other_files_are_no_log_files(tmp_path: Path) -> None:
    assert dump_file(str(tmp_path / "x.txt")) is None

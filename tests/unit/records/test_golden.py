"""Batches written by Apache Kafka itself, and ours read by it.

``golden/GoldenBatches.java`` made the files; what it put into them is spelled out here again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support import java

from moldau.records.batch import LOG_APPEND_TIME, crc_is_valid, read_header
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.control import (
    ControlType,
    build_end_txn_marker,
    read_control_type,
    read_coordinator_epoch,
)
from moldau.records.reader import read_records
from moldau.records.recompress import recompress
from moldau.records.record import Headers, Record

GOLDEN = Path(__file__).parent / "golden"
BASE_TIME = 1_700_000_000_000
BASE_OFFSET = 1000


def golden_records(repeat: int) -> list[Record]:
    records = []
    for i in range(40):
        key = None if i % 4 == 0 else b"" if i % 4 == 1 else b"key-%d" % i
        value = None if i % 7 == 3 else b"value-%d;" % i * (i * repeat)
        headers: Headers = (("trace", bytes([i])), ("ütf-8", None)) if i % 5 == 0 else ()
        timestamp = BASE_TIME + i * 17 - i % 3 * 50
        records.append(Record(BASE_OFFSET + i, timestamp, key, value, headers))
    return records


def build_golden(codec: Compression, repeat: int) -> bytearray:
    return build_batch(
        golden_records(repeat),
        base_offset=BASE_OFFSET,
        compression=codec,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=100,
        transactional=repeat == 1,
        leader_epoch=9,
    )


def describe(batch: bytearray, name: str) -> list[str]:
    """A batch in the words of GoldenBatches.read()."""
    header = read_header(batch)
    codec = Compression(header.compression).label
    timestamps = ("CreateTime", "LogAppendTime")[header.timestamp_type]
    lines = [
        f"batch {name} {codec} {header.base_offset} {header.last_offset} "
        f"{header.max_timestamp} {timestamps} {header.producer_id} {header.producer_epoch} "
        f"{header.base_sequence} {header.partition_leader_epoch} "
        f"{header.is_transactional} {header.is_control}".replace("True", "true").replace(
            "False", "false"
        )
    ]
    for record in read_records(batch):
        key, value = (
            "null" if content is None else "0x" + content.hex()
            for content in (record.key, record.value)
        )
        headers = [
            f"{name}={'null' if content is None else content.hex()}"
            for name, content in record.headers
        ]
        lines.append(
            " ".join(["record", str(record.offset), str(record.timestamp), key, value, *headers])
        )
    return lines


@pytest.mark.parametrize("codec", list(Compression))
def test_kafkas_batches_are_read(codec: Compression) -> None:
    batch = (GOLDEN / f"{codec.label}.bin").read_bytes()
    header = read_header(batch)
    assert header.compression == codec
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset) == (BASE_OFFSET, BASE_OFFSET + 39)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 100)
    assert header.partition_leader_epoch == 9
    assert header.is_transactional
    assert read_records(batch) == golden_records(1)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_kafkas_streams_of_several_blocks_are_read(codec: Compression) -> None:
    batch = (GOLDEN / f"{codec.label}-large.bin").read_bytes()
    assert read_records(batch) == golden_records(40)


def test_an_uncompressed_batch_is_kafkas_byte_by_byte() -> None:
    assert build_golden(Compression.NONE, 1) == (GOLDEN / "none.bin").read_bytes()


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_decompressing_kafkas_batch_gives_the_uncompressed_one(codec: Compression) -> None:
    batch = (GOLDEN / f"{codec.label}.bin").read_bytes()
    assert recompress(batch, Compression.NONE) == (GOLDEN / "none.bin").read_bytes()


def test_log_append_time_is_the_time_of_all_records() -> None:
    batch = (GOLDEN / "log-append-time.bin").read_bytes()
    assert read_header(batch).timestamp_type == LOG_APPEND_TIME
    records = read_records(batch)
    assert {record.timestamp for record in records} == {BASE_TIME + 123}
    assert [record.value for record in records] == [record.value for record in golden_records(1)]


@pytest.mark.parametrize(
    ("name", "control_type", "offset"),
    [("commit", ControlType.COMMIT, 77), ("abort", ControlType.ABORT, 78)],
)
def test_transaction_markers_are_kafkas(name: str, control_type: ControlType, offset: int) -> None:
    batch = (GOLDEN / f"{name}.bin").read_bytes()
    (record,) = read_records(batch)
    assert read_control_type(record.key) is control_type
    assert read_coordinator_epoch(record.value) == 12
    assert batch == build_end_txn_marker(
        control_type,
        producer_id=4711,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp=BASE_TIME,
        base_offset=offset,
        leader_epoch=5,
    )


@pytest.mark.skipif(not java.available(), reason="Kafka's jars are not here: `make kafka`")
def test_kafka_reads_our_batches(tmp_path: Path) -> None:
    expected: list[str] = []
    files: list[Path] = []
    for codec in Compression:
        for repeat in (1, 40):
            batch = build_golden(codec, repeat)
            assert crc_is_valid(batch, 0, len(batch))
            file = tmp_path / f"{codec.label}-{repeat}"
            file.write_bytes(batch)
            files.append(file)
            expected += describe(batch, file.name)
    command = java.java_command(
        str(GOLDEN / "GoldenBatches.java"), flags=(*java.TOOL_FLAGS, "-Dfile.encoding=UTF-8")
    )
    done = subprocess.run([*command, "read", *map(str, files)], capture_output=True, check=False)
    assert done.stdout.decode().splitlines() == expected, done.stderr.decode()

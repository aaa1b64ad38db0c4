"""The same dirty segments, cleaned by Apache Kafka and by Moldau, are the same segments after it.

Kafka writes a compacted topic and does not clean it. Two copies of its directory are cleaned, one
by each; Kafka's tools look at what Moldau left, and Kafka serves it. With ``--target=kafka`` Kafka
is both cleaners, which proves what the test expects.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.compat.test_log_files import dump
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import ALL_CODECS, Sample
from tests.support.clients.confluent import QUIET, ConfluentKafka
from tests.support.drain import Stored, drain
from tests.support.moldau import MoldauOnConfig
from tests.support.samples import incompressible
from tests.support.target import Target

from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.records.batch import BatchHeader, iter_headers
from moldau.records.reader import read_records
from moldau.records.record import Record

TOPIC = "table"
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
    "index.interval.bytes": "4096",
}
NOT_YET = {"log.cleaner.backoff.ms": "3600000"}
SOON = {"log.cleaner.backoff.ms": "200"}
DEADLINE_S = 150.0


def write_table(bootstrap: str) -> None:
    """Few keys over several segments in every codec, tombstones, transactions of both kinds."""
    client = ConfluentKafka(bootstrap)
    client.create_topic(TOPIC, 1, CONFIG)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", **QUIET})
    producer.init_transactions(120)
    for round_number, codec in enumerate(ALL_CODECS):
        samples = [
            Sample(
                b"key %d" % (n * 7 % (40 + round_number)),
                None if n % 11 == 0 else incompressible(6000 + n),
                timestamp_ms=1_700_000_000_000 + round_number * 10_000 + n * 3 % 100,
            )
            for n in range(120)
        ]
        client.write(TOPIC, samples, codec)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for n in range(3):
                value = f"{round_number} {end.__name__}".encode() * 500
                producer.produce(TOPIC, value, b"in transaction %d" % n, partition=0)
            producer.flush(120)
            end(120)


@dataclass
class Cleaned:
    """A directory after its cleaning, and what it holds for a reader."""

    directory: Path
    uncommitted: list[Stored]
    committed: list[Stored]

    @property
    def partition(self) -> Path:
        return self.directory / "kafka-data" / f"{TOPIC}-0"

    def batches(self) -> list[tuple[str, BatchHeader, list[Record], bytes]]:
        found = []
        for file in sorted(self.partition.glob("*.log")):
            data = file.read_bytes()
            for position, header in iter_headers(data, allow_partial_tail=False):
                batch = data[position : position + header.size]
                found.append((file.name, header, read_records(batch), batch))
        return found


def clean(broker: Target, directory: Path) -> Cleaned:
    broker.start()
    try:
        wait_until_clean(directory / "kafka-data")
        found = [drain(broker.bootstrap, TOPIC, committed=only) for only in (False, True)]
    finally:
        broker.stop()
    return Cleaned(directory, *found)


def wait_until_clean(data_dir: Path, topic: str = TOPIC) -> None:
    path = f"{data_dir}/cleaner-offset-checkpoint"
    deadline = time.monotonic() + DEADLINE_S
    while True:
        active = max(int(file.stem) for file in (data_dir / f"{topic}-0").glob("*.log"))
        done = read_offsets(OsDisk(), path).get(TopicPartition(topic, 0), -1)
        if done == active > 0:
            return
        assert time.monotonic() < deadline, f"cleaned up to {done}, not to {active}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Stored]]]:
    directory = tmp_path_factory.mktemp("dirty")
    with ApacheKafka(directory, NOT_YET) as kafka:
        write_table(kafka.bootstrap)
        stored = drain(kafka.bootstrap, TOPIC, committed=True)
    yield directory, stored
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def by_kafka(dirty: tuple[Path, list[Stored]], tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    directory = tmp_path_factory.mktemp("by-kafka") / "copy"
    shutil.copytree(dirty[0], directory)
    return clean(ApacheKafka(directory, SOON), directory)


@pytest.fixture(scope="module")
def by_target(
    dirty: tuple[Path, list[Stored]],
    by_kafka: Cleaned,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Cleaned:
    directory = tmp_path_factory.mktemp("by-target") / "copy"
    shutil.copytree(dirty[0], directory)
    kafka = ApacheKafka(directory, SOON)
    if request.config.getoption("--target") == "kafka":
        return clean(kafka, directory)
    properties = (by_kafka.directory / "kafka.properties").read_text()
    kafka.properties_file.write_text(properties.replace(str(by_kafka.directory), str(directory)))
    return clean(MoldauOnConfig(kafka.properties_file, kafka.data_dir), directory)


@pytest.mark.compat("Log compaction", "Storage")
def test_readers_find_the_last_value_of_every_key(
    dirty: tuple[Path, list[Stored]], by_target: Cleaned
) -> None:
    _, before = dirty
    assert len(by_target.committed) < len(before)
    assert last_values(by_target.committed) == last_values(before)
    known = {one.offset: one for one in before}
    assert all(known[one.offset] == one for one in by_target.committed)


def last_values(stored: list[Stored]) -> dict[bytes | None, bytes | None]:
    return {one.sample.key: one.sample.value for one in stored}


@pytest.mark.compat("Log compaction", "Storage")
def test_the_segments_are_those_that_kafka_leaves(by_kafka: Cleaned, by_target: Cleaned) -> None:
    ours, theirs = by_target.batches(), by_kafka.batches()
    assert [(name, header.base_offset) for name, header, *_ in ours] == [
        (name, header.base_offset) for name, header, *_ in theirs
    ]
    horizons = 0
    for (_, mine, my_records, my_bytes), (_, kafkas, records, raw) in zip(
        ours, theirs, strict=True
    ):
        assert my_records == records
        if mine.has_delete_horizon:
            # It depends on the time of the cleaning, and everything behind it with it.
            horizons += 1
            mine = mine._replace(base_timestamp=kafkas.base_timestamp)
        if mine.has_delete_horizon or mine.compression:
            same = {"crc": kafkas.crc, "batch_length": kafkas.batch_length}
            assert mine._replace(**same) == kafkas
        else:
            assert my_bytes == raw
    assert horizons > 3
    assert transaction_indexes(by_target) == transaction_indexes(by_kafka)
    assert by_target.uncommitted == by_kafka.uncommitted
    assert by_target.committed == by_kafka.committed


def transaction_indexes(cleaned: Cleaned) -> dict[str, bytes]:
    """Kafka makes one for every segment, Moldau where there is something to say."""
    files = {file.name: file.read_bytes() for file in cleaned.partition.glob("*.txnindex")}
    return {name: content for name, content in files.items() if content}


@pytest.mark.compat("Log compaction", "Storage")
def test_the_indexes_and_batches_pass_kafkas_own_check(by_target: Cleaned) -> None:
    logs = list(by_target.partition.glob("*.log"))
    printed = dump(logs, "--deep-iteration")
    batches = by_target.batches()
    assert printed.count("isvalid: true") == len(batches)
    assert printed.count("| offset: ") == sum(len(records) for _, _, records, _ in batches)
    assert printed.count("deleteHorizonMs: OptionalLong[") > 3
    indexes = [*by_target.partition.glob("*.index"), *by_target.partition.glob("*.timeindex")]
    assert len(indexes) == 2 * len(logs)
    dump(indexes, "--index-sanity-check")
    dump(indexes, "--verify-index-only")
    transactions = list(by_target.partition.glob("*.txnindex"))
    if transactions:
        dump(transactions)


@pytest.mark.compat("Log compaction", "Storage")
def test_kafka_serves_what_was_cleaned(by_target: Cleaned, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(by_target.directory, directory)
    with ApacheKafka(directory, NOT_YET) as kafka:
        assert drain(kafka.bootstrap, TOPIC) == by_target.uncommitted
        assert drain(kafka.bootstrap, TOPIC, committed=True) == by_target.committed
        ConfluentKafka(kafka.bootstrap).write(TOPIC, [Sample(b"more", b"more")], "none")
        assert len(drain(kafka.bootstrap, TOPIC)) == len(by_target.uncommitted) + 1

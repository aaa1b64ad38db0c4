"""A directory that Apache Kafka wrote is served by Moldau with every record and setting intact.

Moldau gets the very same server.properties. With ``--target=kafka`` Kafka opens its own directory
again, which proves what the test expects.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer
from tests.compat.test_compaction import wait_until_clean
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import ALL_CODECS, Sample
from tests.support.clients.confluent import QUIET, ConfluentKafka
from tests.support.drain import Stored, drain
from tests.support.moldau import MoldauOnConfig
from tests.support.samples import incompressible, samples
from tests.support.target import Target

from moldau.log.tools.verify import Finding, Level, Verification

SMALL_SEGMENTS = {"segment.bytes": "1048576"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL_SEGMENTS}
CONFIGURED = {"retention.ms": "86400000", "max.message.bytes": "2000000"}
PARTITIONS = 3
# A test adds to it, so it is not among those whose content is compared.
GROWING = "growing"

Content = dict[tuple[str, int, bool], list[Stored]]


@dataclass
class Written:
    """The directory, and what Kafka itself read from it before it went."""

    kafka: ApacheKafka
    clean: bool
    partitions: dict[str, int] = field(default_factory=dict)
    content: Content = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    """What ``moldau log verify --deep`` finds in the directory as Kafka left it."""


def read_everything(bootstrap: str, partitions: dict[str, int]) -> Content:
    return {
        (topic, partition, committed): drain(bootstrap, topic, partition, committed=committed)
        for topic, number in partitions.items()
        for partition in range(number)
        for committed in (False, True)
    }


def write_everything(kafka: ApacheKafka) -> dict[str, int]:
    client = ConfluentKafka(kafka.bootstrap)
    partitions: dict[str, int] = {}
    for codec in ALL_CODECS:
        client.create_topic(f"plain-{codec}", 1, SMALL_SEGMENTS)
        many = [Sample(b"%d" % n, incompressible(5000 + n)) for n in range(300)]
        client.write(f"plain-{codec}", [*samples(), *many], codec)
        partitions[f"plain-{codec}"] = 1
    client.create_topic(GROWING, 1)
    client.write(GROWING, samples(), "gzip")
    client.create_topic("configured", PARTITIONS, CONFIGURED)
    client.write("configured", samples(), "none")
    client.delete_records("configured", 5)
    partitions["configured"] = PARTITIONS
    write_transactions(kafka.bootstrap, client)
    partitions["transactions"] = 1
    write_compacted(kafka, client)
    partitions["compacted"] = 1
    return partitions


def write_transactions(bootstrap: str, client: ConfluentKafka) -> None:
    """Committed, aborted, committed around an aborted one, and one that stays open."""
    client.create_topic("transactions", 1, SMALL_SEGMENTS)
    first, second = (
        Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUIET})
        for name in ("first", "second")
    )
    for producer in (first, second):
        producer.init_transactions(120)
    for number in range(6):
        first.begin_transaction()
        second.begin_transaction()
        for step in range(3):
            for name, producer in (("first", first), ("second", second)):
                value = f"{name} {number} {step}".encode() * 2000
                producer.produce("transactions", value, partition=0)
                producer.flush(120)
        (first.commit_transaction if number % 2 else first.abort_transaction)(120)
        second.commit_transaction(120)
    first.begin_transaction()
    first.produce("transactions", b"never committed", partition=0)
    first.flush(120)
    second.begin_transaction()
    second.produce("transactions", b"committed behind an open transaction", partition=0)
    second.commit_transaction(120)


def write_compacted(kafka: ApacheKafka, client: ConfluentKafka) -> None:
    """Few keys over several segments, until Kafka's cleaner has nothing more to do.

    It has left holes in the offsets then, and leaves no others while the directory is read.
    """
    client.create_topic("compacted", 1, COMPACTED)
    rounds = [Sample(b"key %d" % (n % 7), incompressible(9000 + n)) for n in range(400)]
    client.write("compacted", rounds, "lz4")
    wait_until_clean(kafka.data_dir, "compacted")


@pytest.fixture(scope="module", params=["stop", "kill"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    directory = tmp_path_factory.mktemp("written-by-kafka")
    kafka = ApacheKafka(directory, {"log.cleaner.backoff.ms": "200"})
    kafka.start()
    try:
        done = Written(kafka, request.param == "stop", write_everything(kafka))
        done.content = read_everything(kafka.bootstrap, done.partitions)
        if done.clean:
            kafka.stop()
        kafka.kill()
        done.found = list(Verification([str(kafka.data_dir)], deep=True).run())
        yield done
    finally:
        kafka.kill()
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def reopened(written: Written, request: pytest.FixtureRequest) -> Iterator[Target]:
    broker: Target = written.kafka
    if request.config.getoption("--target") == "moldau":
        broker = MoldauOnConfig(written.kafka.properties_file, written.kafka.data_dir)
    broker.start()
    yield broker
    broker.stop()


def test_the_written_directory_is_worth_the_test(written: Written) -> None:
    content = written.content
    assert {len(content[f"plain-{codec}", 0, False]) for codec in ALL_CODECS} == {317}
    assert content["configured", 0, False][0].offset == 5
    transactions = {committed: content["transactions", 0, committed] for committed in (False, True)}
    assert len(transactions[False]) == 38
    assert len(transactions[True]) == 27  # 3 aborted ones and what follows the open one are missing
    assert len(content["compacted", 0, False]) < 400
    log = written.kafka.data_dir / "plain-none-0"
    assert len(list(log.glob("*.log"))) > 1


def test_offline_verification_finds_nothing_wrong(written: Written) -> None:
    damaged = [finding for finding in written.found if finding.level is Level.DAMAGE]
    assert damaged == []
    if written.clean:
        # A cleaner that has just swapped segments leaves the old ones for a minute.
        assert {finding.path.rpartition(".")[2] for finding in written.found} <= {"deleted"}


@pytest.mark.compat("A directory of Apache Kafka is served", "Storage")
def test_every_record_is_there(written: Written, reopened: Target) -> None:
    read = read_everything(reopened.bootstrap, written.partitions)
    for place, records in written.content.items():
        found = read[place]
        if not written.clean and records:
            # Where deleted records end is written down from time to time only.
            found = [stored for stored in found if stored.offset >= records[0].offset]
        assert found == records, place


@pytest.mark.compat("A directory of Apache Kafka is served", "Storage")
def test_topics_keep_their_settings_and_partitions(written: Written, reopened: Target) -> None:
    client = ConfluentKafka(reopened.bootstrap)
    for topic, partitions in written.partitions.items():
        assert client.partition_count(topic) == partitions
    for topic, configs in (
        ("configured", CONFIGURED),
        ("compacted", COMPACTED),
        ("plain-none", SMALL_SEGMENTS),
    ):
        assert {name: client.topic_config(topic, name) for name in configs} == configs


@pytest.mark.compat("A directory of Apache Kafka is served", "Storage")
def test_offsets_and_timestamps_are_found(written: Written, reopened: Target) -> None:
    client = ConfluentKafka(reopened.bootstrap)
    assert client.earliest_offset("configured") == 5 or not written.clean
    assert client.latest_offset("configured") == len(samples())
    for stored in written.content["plain-zstd", 0, False][3:10]:
        timestamp = stored.sample.timestamp_ms
        assert timestamp is not None
        assert client.offset_for_timestamp("plain-zstd", timestamp) == stored.offset


@pytest.mark.compat("A directory of Apache Kafka is served", "Storage")
def test_records_can_be_added(written: Written, reopened: Target) -> None:
    client = ConfluentKafka(reopened.bootstrap)
    before = drain(reopened.bootstrap, GROWING)
    assert len(before) == len(samples())
    client.write(GROWING, samples(), "gzip")
    after = drain(reopened.bootstrap, GROWING)
    assert after[: len(before)] == before
    assert [stored.offset for stored in after] == list(range(2 * len(samples())))

"""Compaction by a broker that runs: what is read, and what happens to its cleaner process."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.clients.base import ALL_CODECS, Sample
from tests.support.clients.confluent import QUIET, ConfluentKafka
from tests.support.drain import drain
from tests.support.process import free_port
from tests.support.samples import incompressible
from tests.support.soak import SOAK

from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.testing.broker import MoldauProcess

SEGMENT_BYTES = 1_048_576
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(SEGMENT_BYTES),
}
DEADLINE_S = 150.0
KILLS = 50 if SOAK else 5


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    settings = {
        "log.cleaner.backoff.ms": 100,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "metrics.listener": "HTTP://127.0.0.1:0",
    }
    with MoldauProcess(tmp_path, port=free_port(), overrides=settings) as broker:
        yield broker


def log_metrics(broker: MoldauProcess) -> dict[str, float]:
    """What the broker's endpoint says of its one log directory."""
    (url,) = re.findall(r"metrics are at (http://\S+)", broker.log_file.read_text())[-1:]
    with urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    directory = re.escape(f'{{logDirectory="{broker.data_dir}"}}')
    found = re.findall(rf"^kafka_log_(\w+?)(?:{directory})? (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def first_dirty(broker: MoldauProcess, topic: str) -> int:
    path = f"{broker.data_dir}/cleaner-offset-checkpoint"
    return read_offsets(OsDisk(), path).get(TopicPartition(topic, 0), -1)


def active_base(broker: MoldauProcess, topic: str) -> int:
    return max(int(file.stem) for file in (broker.data_dir / f"{topic}-0").glob("*.log"))


def wait_until_clean(broker: MoldauProcess, topic: str) -> None:
    until(
        lambda: first_dirty(broker, topic) == active_base(broker, topic) > 0,
        f"{topic} was not cleaned: {broker.logs()}",
    )


def cleaner_pids(broker: MoldauProcess) -> list[int]:
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    found = []
    for child in children:
        try:
            if b"moldau.log.cleaner.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_read_equals_a_dict_of_last_values(broker: MoldauProcess, seed: int) -> None:
    rng = random.Random(seed)
    client = ConfluentKafka(broker.bootstrap_servers)
    client.create_topic("table", 1, COMPACTED)
    table: dict[bytes | None, bytes | None] = {}
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    for codec in rng.sample(ALL_CODECS, len(ALL_CODECS)):
        samples = [
            Sample(
                b"key %d" % rng.randrange(200),
                None if rng.random() < 0.2 else incompressible(rng.randrange(8000)),
            )
            for _ in range(rng.randrange(200, 400))
        ]
        offsets = client.write("table", samples, codec)
        for offset, sample in zip(offsets, samples, strict=True):
            written[offset] = sample.key, sample.value
            table[sample.key] = sample.value
    wait_until_clean(broker, "table")
    clean_up_to = first_dirty(broker, "table")

    for _ in range(2):
        stored = drain(broker.bootstrap_servers, "table")
        assert {one.sample.key: one.sample.value for one in stored} == table
        assert all(written[one.offset] == (one.sample.key, one.sample.value) for one in stored)
        cleaned = [one.sample.key for one in stored if one.offset < clean_up_to]
        assert len(cleaned) == len(set(cleaned))
        assert len(stored) < len(written)
        broker.kill()
        broker.start()


def test_a_reader_at_work_finishes_while_its_segments_are_replaced(broker: MoldauProcess) -> None:
    client = ConfluentKafka(broker.bootstrap_servers)
    client.create_topic("table", 1, COMPACTED)
    samples = [Sample(b"%d" % (n % 50), incompressible(9000)) for n in range(600)]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": 20_000,
            "queued.min.messages": 2,
            "fetch.queue.backoff.ms": 1,
            **QUIET,
        }
    )
    consumer.subscribe(["table"])
    try:
        last: dict[bytes, int] = {}
        written = 0
        position = -1
        for start in range(0, len(samples), 100):
            written += len(client.write("table", samples[start : start + 100], "none"))
            while position < written - 1:
                message = consumer.poll(120)
                assert message is not None
                assert message.error() is None
                assert message.offset() > position
                position = message.offset()
                assert message.value() == samples[position].value
                last[message.key()] = position
        assert last == {b"%d" % (n % 50): n for n in range(550, 600)}
    finally:
        consumer.close()
    wait_until_clean(broker, "table")


def test_the_cleaner_process_dies_and_the_broker_dies(broker: MoldauProcess) -> None:
    """A killed cleaner is replaced; a killed broker's cleaner ends; then all goes on."""
    broker.terminate()
    broker.overrides["log.cleaner.io.max.bytes.per.second"] = "100000"
    broker.start()
    client = ConfluentKafka(broker.bootstrap_servers)
    client.create_topic("table", 1, COMPACTED)
    samples = [Sample(b"%d" % (n % 9), incompressible(9000)) for n in range(300)]
    client.write("table", samples, "none")
    until(lambda: len(cleaner_pids(broker)) == 1, "no cleaner was started")
    (first,) = cleaner_pids(broker)
    until(
        lambda: (
            os.getpriority(os.PRIO_PROCESS, first) > os.getpriority(os.PRIO_PROCESS, broker.pid)
        ),
        "the cleaner has the broker's priority",
    )
    os.kill(first, signal.SIGKILL)
    until(lambda: cleaner_pids(broker) not in ([], [first]), "the cleaner was not replaced")
    (second,) = cleaner_pids(broker)
    assert client.latest_offset("table") == len(samples)

    broker.kill()
    until(lambda: not is_running(second), "the cleaner has outlived the broker")
    del broker.overrides["log.cleaner.io.max.bytes.per.second"]
    broker.start()
    wait_until_clean(broker, "table")
    until(lambda: cleaner_pids(broker) == [], "the cleaner stays although there is nothing to do")
    stored = drain(broker.bootstrap_servers, "table")
    assert {one.sample.key: one.sample.value for one in stored} == {
        sample.key: sample.value for sample in samples
    }
    assert not list((broker.data_dir / "table-0").glob("*.cleaned"))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_damaged_partition_is_set_aside_and_others_are_cleaned(broker: MoldauProcess) -> None:
    client = ConfluentKafka(broker.bootstrap_servers)
    samples = [Sample(b"%d" % (n % 9), incompressible(9000)) for n in range(300)]
    client.create_topic("damaged", 1, {**COMPACTED, "min.compaction.lag.ms": "3600000"})
    client.write("damaged", samples, "none")
    with (broker.data_dir / "damaged-0" / f"{0:020d}.log").open("r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    client.alter_topic_config("damaged", "min.compaction.lag.ms", "0")
    until(lambda: "damaged-0 is uncleanable" in broker.logs(), "the damage was not noticed")
    client.create_topic("table", 1, COMPACTED)
    client.write("table", samples, "none")
    wait_until_clean(broker, "table")
    assert first_dirty(broker, "damaged") == -1
    assert client.latest_offset("damaged") == len(samples)
    until(
        lambda: 0 < log_metrics(broker)["logcleaner_cleaner_recopy_percent"] < 50,
        "nine of 300 records are left",
    )
    metrics = log_metrics(broker)
    assert metrics["logcleanermanager_uncleanable_partitions_count"] == 1
    assert metrics["logcleanermanager_uncleanable_bytes"] == stored_bytes(broker, "damaged")
    assert metrics["logcleaner_deadthreadcount"] == 0


def stored_bytes(broker: MoldauProcess, topic: str) -> int:
    return sum(file.stat().st_size for file in (broker.data_dir / f"{topic}-0").glob("*.log"))


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = {
        "log.cleaner.backoff.ms": 100,
        "log.cleaner.min.cleanable.ratio": 0.01,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": SEGMENT_BYTES,
    }
    with MoldauProcess(tmp_path, port=free_port(), overrides=settings) as broker:
        broker.create_topic("t", 3)
        place = [KafkaPartition("t", partition, 0) for partition in range(3)]
        consumers = [
            Consumer(
                {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group {n}", **QUIET}
            )
            for n in range(2)
        ]
        metadata = "x" * 4000  # as much as may be, to fill segments
        for round_number in range(100):
            for number, consumer in enumerate(consumers):
                offsets = [
                    KafkaPartition(one.topic, one.partition, round_number * 10 + number, metadata)
                    for one in place
                ]
                consumer.commit(offsets=offsets, asynchronous=False)
        wait_until_clean(broker, "__consumer_offsets")
        assert closed_bytes(broker) < SEGMENT_BYTES // 10
        broker.kill()
        broker.start()
        for number, consumer in enumerate(consumers):
            committed = consumer.committed(place, timeout=120)
            assert [one.offset for one in committed] == [990 + number] * 3
            consumer.close()


def closed_bytes(broker: MoldauProcess) -> int:
    """Bytes in the closed segments of the offsets topic."""
    files = sorted((broker.data_dir / "__consumer_offsets-0").glob("*.log"))
    return sum(file.stat().st_size for file in files[:-1])


def test_kills_while_a_table_is_written_and_cleaned(broker: MoldauProcess) -> None:
    """The producer never gives up, so in the end every key has the value it was last given."""
    rng = random.Random(5)
    ConfluentKafka(broker.bootstrap_servers).create_topic("table", 1, COMPACTED)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.max.ms": 100,
            **QUIET,
        }
    )
    refused: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    table: dict[bytes, bytes] = {}
    for _ in range(KILLS):
        for _ in range(300):
            key, value = b"%d" % rng.randrange(100), incompressible(rng.randrange(1, 9000))
            producer.produce("table", value, key, on_delivery=delivered)
            table[key] = value
        producer.poll(rng.random())
        broker.kill()
        broker.start()
    assert producer.flush(150) == 0
    assert refused == []
    wait_until_clean(broker, "table")
    stored = drain(broker.bootstrap_servers, "table")
    assert {one.sample.key: one.sample.value for one in stored} == table
    assert len(stored) < 300 * KILLS

"""``moldau log verify`` on directories that a broker wrote, stopped properly or killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cluster.test_compaction import until, wait_until_clean
from tests.support.cli import CommandLine

from moldau.testing.broker import MoldauProcess

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    """With records of every codec, of idempotent producers, in segments of 1 MB; some compacted."""
    overrides = {
        "log.segment.bytes": "1048576",
        "log.segment.delete.delay.ms": "0",
        "log.cleaner.backoff.ms": "100",
    }
    broker = MoldauProcess(tmp_path / "broker", overrides=overrides)
    broker.start()
    bootstrap = {"bootstrap.servers": broker.bootstrap_servers}
    randomness = random.Random(1)
    admin = AdminClient(bootstrap)
    topics = [NewTopic("t", 2, 1), NewTopic("compacted", 1, 1, config=COMPACTED)]
    for future in admin.create_topics(topics).values():
        future.result(120)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {**bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        )
        for number in range(600):
            producer.produce("t", randomness.randbytes(2000), partition=number % 2)
            producer.produce("compacted", randomness.randbytes(2000), b"key %d" % (number % 7))
        assert producer.flush(120) == 0
    # A kill in the middle of a compaction leaves files, which are told.
    wait_until_clean(broker, "compacted")
    files = broker.data_dir / "compacted-0"
    until(lambda: not list(files.glob("*.deleted")), "old segments stay")
    yield broker
    if broker.alive:
        broker.kill()


@pytest.fixture
def moldau(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine("", capsys)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_directory_of_a_broker_has_nothing_wrong(
    broker: MoldauProcess, moldau: CommandLine, end: str
) -> None:
    running = moldau("log", "verify", str(broker.data_dir), code=2)
    assert "a broker is using" in running.err
    if end == "stop":
        assert broker.terminate() == 0
    else:
        broker.kill()
    found = moldau("log", "verify", "--deep", "--json", str(broker.data_dir)).json
    assert found["findings"] == []
    assert 3000 < found["records"] < 6000
    assert found["partitions"] == 3
    assert found["segments"] > 2


def test_damage_is_told_and_ends_the_command_with_1(
    broker: MoldauProcess, moldau: CommandLine
) -> None:
    broker.terminate()
    path = min((broker.data_dir / "t-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content)
    done = moldau("log", "verify", str(broker.data_dir), code=1)
    assert f"damage: {path} at position 0 (offset 0): the CRC of the batch is wrong" in done.out
    assert "At the start: nothing" in done.out
    assert "GB/s" in done.err
    assert "1 thing is damaged." in done.err

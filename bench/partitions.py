"""Ten thousand partitions on one broker: creation, clean restart, memory, and one record to each of
them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kio.schema.create_topics.v5.request import CreatableTopic, CreateTopicsRequest

from bench import loads
from bench.broker import Runs
from bench.report import Row
from bench.targets import Kafka, Moldau, Target, cpu_seconds, resident_mb
from moldau.wire.api import ApiKey
from moldau.wire.make import make

# Kafka's controller refuses to create 10,000 partitions at once.
PARTITIONS_PER_TOPIC = 5000
CREATE_TIMEOUT_S = 300

ROWS = [
    Row("create", "create {count} partitions and write a record to each", "s", 2),
    Row("restart", "start after a clean stop, until a record is acknowledged", "s", 2),
    Row("memory", "resident memory after that start", "MB", 0),
    Row("produce", "one record to each partition, 16 requests in flight", "s", 2),
    Row("produce_cpu", "the same: CPU per request", "µs", 0),
    Row("memory_after", "resident memory afterwards", "MB", 0),
    Row("stop", "clean stop", "s", 2),
]


def rows(count: int) -> list[Row]:
    return [row._replace(title=row.title.format(count=f"{count:,}")) for row in ROWS]


def run(count: int, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    for kind in (Moldau, Kafka):
        with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
            target = kind(Path(directory))
            try:
                target.start()
                say(f"{count} partitions on {target.name}")
                _measure(target, count, runs)
            finally:
                target.stop()
    return runs


def _measure(target: Target, count: int, runs: Runs) -> None:
    started = time.monotonic()
    topics = _topics(count)
    for topic, partitions in topics.items():
        _create(target, topic, partitions)
        _produce_to_each(target, topic, partitions)
    runs.add("create", target, time.monotonic() - started)
    target.stop()

    started = time.monotonic()
    target.start()
    loads.first_acknowledged_record(
        target.address, next(iter(topics)), loads.batch_of(100), started + CREATE_TIMEOUT_S
    )
    runs.add("restart", target, time.monotonic() - started)
    runs.add("memory", target, resident_mb(target.pid))

    before, started = cpu_seconds(target.pid), time.monotonic()
    for topic, partitions in topics.items():
        _produce_to_each(target, topic, partitions)
    runs.add("produce", target, time.monotonic() - started)
    runs.add("produce_cpu", target, (cpu_seconds(target.pid) - before) / count * 1e6)
    runs.add("memory_after", target, resident_mb(target.pid))

    started = time.monotonic()
    target.stop()
    runs.add("stop", target, time.monotonic() - started)


def _topics(count: int) -> dict[str, int]:
    """Topic names and their numbers of partitions."""
    return {
        f"many-{number}": min(PARTITIONS_PER_TOPIC, count - first)
        for number, first in enumerate(range(0, count, PARTITIONS_PER_TOPIC))
    }


def _create(target: Target, name: str, count: int) -> None:
    with loads.connect(target.address) as connection:
        connection.settimeout(CREATE_TIMEOUT_S)
        topic = make(
            CreatableTopic,
            name=name,
            num_partitions=count,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        request = make(CreateTopicsRequest, topics=(topic,))
        (result,) = loads.call(connection, ApiKey.CREATE_TOPICS, 5, request).topics
        if result.error_code:
            raise loads.LoadError(f"{target.name}: {result.error_code} {result.error_message}")


def _produce_to_each(target: Target, topic: str, count: int) -> None:
    """One request per partition; a partition that is not ready yet is asked again."""
    batch = loads.batch_of(100)
    waiting = list(range(count))
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while waiting:
        codes = loads.produce_each(target.address, topic, batch, waiting, in_flight=16)
        waiting = [partition for partition, code in zip(waiting, codes, strict=True) if code]
        if time.monotonic() > deadline:
            raise loads.LoadError(f"{len(waiting)} partitions take no record")

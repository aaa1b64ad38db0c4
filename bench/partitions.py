"""Ten thousand partitions on one broker: creation, clean restart, memory, and one record to each of
them, by a broker that has just started and by a warm one.
"""

from __future__ import annotations

import time

from bench import requests
from bench.figures import Runs
from bench.processes import cpu_seconds, resident_mb
from bench.report import Row, Table, compare
from bench.session import Session
from bench.targets import Target, brokers
from bench.warming import warm

FULL, QUICK = 10_000, 20
"""Partitions."""

# Kafka's controller refuses to create 10,000 partitions at once.
PARTITIONS_PER_TOPIC = 5000
WARMING_S = 60

ROWS = [
    Row("create", "create them and write a record to each", "s", 2),
    Row("restart", "start after a clean stop, until a record is acknowledged", "s", 2),
    Row("memory", "resident memory after that start", "MB", 0),
    Row("cold", "one record to each partition, 16 requests in flight, cold", "s", 2),
    Row("cold_cpu", "the same: CPU per request", "µs", 0),
    Row("warm", "one record to each partition, 16 requests in flight, warm", "s", 2),
    Row("warm_cpu", "the same: CPU per request", "µs", 0),
    Row("memory_after", "resident memory afterwards", "MB", 0),
    Row("stop", "clean stop", "s", 2),
]


def run(session: Session) -> list[Table]:
    count = QUICK if session.quick else FULL
    runs = Runs()
    notes: list[str] = []
    for kind in session.both:
        with brokers([kind]) as (target,):
            session.say(f"{count:,} partitions on {target.name}")
            notes.append(_measure(target, count, 0 if session.quick else WARMING_S, runs))
            session.say(notes[-1])
    return [compare(f"{count:,} partitions, one round", ROWS, runs, notes)]


def _measure(target: Target, count: int, warming_s: float, runs: Runs) -> str:
    """Returns how the broker got warm."""
    target.start()
    started = time.monotonic()
    topics = _topics(count)
    for topic, partitions in topics.items():
        requests.create_topic(target.address, topic, partitions)
    runs.add("create", target, time.monotonic() - started)
    target.stop()

    started = time.monotonic()
    target.start()
    deadline = started + requests.TIMEOUT_S
    requests.first_acknowledged_record(target.address, next(iter(topics)), deadline)
    runs.add("restart", target, time.monotonic() - started)
    runs.add("memory", target, resident_mb(target.pid))

    _produce_to_all(target, topics, "cold", runs)
    discarded = Runs()
    work = {"CPU per request": lambda: _produce_to_all(target, topics, "warm", discarded)}
    warmth = warm(work, warming_s)
    for _ in range(3):
        _produce_to_all(target, topics, "warm", runs)
    runs.add("memory_after", target, resident_mb(target.pid))

    started = time.monotonic()
    target.stop()
    runs.add("stop", target, time.monotonic() - started)
    return warmth.text(target.name)


def _produce_to_all(target: Target, topics: dict[str, int], row: str, runs: Runs) -> float:
    """Returns the CPU time of a request, in microseconds."""
    before, started = cpu_seconds(target.pid), time.monotonic()
    for topic, partitions in topics.items():
        requests.produce_to_each(target.address, topic, partitions)
    cpu_us = (cpu_seconds(target.pid) - before) / sum(topics.values()) * 1e6
    runs.add(row, target, time.monotonic() - started)
    runs.add(f"{row}_cpu", target, cpu_us)
    return cpu_us


def _topics(count: int) -> dict[str, int]:
    """Topic names and their numbers of partitions."""
    return {
        f"many-{number}": min(PARTITIONS_PER_TOPIC, count - first)
        for number, first in enumerate(range(0, count, PARTITIONS_PER_TOPIC))
    }

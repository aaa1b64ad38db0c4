"""Clients side by side on one Moldau broker: ours, confluent-kafka, aiokafka, kafka-python."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.broker import Runs
from bench.targets import Moldau

LIMIT_S = 300
PARTITIONS = 3


class Name(NamedTuple):
    """Whom a figure belongs to."""

    name: str


class Way(NamedTuple):
    """A client and a way of using it; ``share`` is its part of the load, for slow ones."""

    title: str
    produce: str
    latency: str | None
    share: float = 1.0


SEND = "moldau: send"
SEND_MANY = "moldau: send_many"
ASYNC = "moldau: AsyncProducer.send"
CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"
KAFKA_PYTHON = "kafka-python"

WAYS = [
    Way(SEND, "moldau_send", "moldau_latency"),
    Way(SEND_MANY, "moldau_send_many", None),
    Way(ASYNC, "moldau_async", "moldau_async_latency"),
    Way(CONFLUENT, "confluent_send", "confluent_latency"),
    Way(AIOKAFKA, "aiokafka_send", "aiokafka_latency", 0.3),
    Way(KAFKA_PYTHON, "kafka_python_send", "kafka_python_latency", 0.1),
]

HEADINGS = (
    "client", "100 B records/s", "CPU µs each", "1 KB records/s", "CPU µs each",
    "one send, p50 µs", "p99 µs",
)  # fmt: skip

GOAL_HEADINGS = ("goal", "ratio", "wanted", "met")


class Scale(NamedTuple):
    records: int
    rounds: int
    latencies: int


FULL = Scale(600_000, 5, 2000)
QUICK = Scale(100_000, 1, 300)


def run(scale: Scale, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
        target = Moldau(Path(directory))
        target.start()
        try:
            for number in range(scale.rounds):
                say(f"clients, round {number + 1} of {scale.rounds}")
                for way in WAYS:
                    _measure(way, target.address, scale, runs, number)
        finally:
            target.stop()
    return runs


def _measure(way: Way, bootstrap: str, scale: Scale, runs: Runs, number: int) -> None:
    name = Name(way.title)
    for size in (100, 1000):
        topic = f"{way.produce}-{size}-{number}".replace("_", "-")
        _create(bootstrap, topic)
        records = int(scale.records * way.share * (1 if size == 100 else 0.3))
        taken = _load(way.produce, bootstrap, topic, size, records)
        runs.add(f"rate_{size}", name, taken["records_per_second"])
        runs.add(f"cpu_{size}", name, taken["cpu_us"])
    if way.latency is not None:
        topic = f"{way.latency}-{number}".replace("_", "-")
        _create(bootstrap, topic)
        taken = _load(way.latency, bootstrap, topic, 100, scale.latencies)
        runs.add("p50", name, taken["p50_us"])
        runs.add("p99", name, taken["p99_us"])


def _create(bootstrap: str, topic: str) -> None:
    from moldau import Admin, NewTopic

    with Admin(bootstrap_servers=bootstrap) as admin:
        for outcome in admin.create_topics([NewTopic(topic, PARTITIONS)]):
            outcome.get()


def _load(name: str, bootstrap: str, topic: str, size: int, records: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.client_loads", name, bootstrap, topic]
    done = subprocess.run(
        [*command, str(size), str(records)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def lines(runs: Runs) -> list[tuple[str, ...]]:
    """One line per client, the medians of its rounds."""
    return [
        (
            way.title,
            _figure(runs, "rate_100", way.title),
            _figure(runs, "cpu_100", way.title, 2),
            _figure(runs, "rate_1000", way.title),
            _figure(runs, "cpu_1000", way.title, 2),
            _figure(runs, "p50", way.title),
            _figure(runs, "p99", way.title),
        )
        for way in WAYS
    ]


def goals(runs: Runs) -> list[tuple[str, ...]]:
    """What we set out to reach, as ratios of the medians of 100 B records."""
    wanted = [
        ("send, beside aiokafka", "rate_100", SEND, AIOKAFKA, 2.0, True),
        ("send, beside kafka-python", "rate_100", SEND, KAFKA_PYTHON, 8.0, True),
        ("send_many, beside confluent-kafka", "rate_100", SEND_MANY, CONFLUENT, 1.0, True),
        ("one send with asyncio, p50, beside aiokafka", "p50", ASYNC, AIOKAFKA, 1.0, False),
        ("one send with asyncio, p99, beside aiokafka", "p99", ASYNC, AIOKAFKA, 1.0, False),
    ]
    found: list[tuple[str, ...]] = []
    for title, row, ours, theirs, bound, at_least in wanted:
        one, other = runs.median(row, ours), runs.median(row, theirs)
        if one is None or other is None:
            continue
        ratio = one / other
        met = ratio >= bound if at_least else ratio <= bound
        sign = "≥" if at_least else "≤"
        found.append((title, f"{ratio:.2f}", f"{sign} {bound:g} ×", "yes" if met else "no"))
    return found


def _figure(runs: Runs, row: str, name: str, digits: int = 0) -> str:
    middle = runs.median(row, name)
    if middle is None:
        return ""
    low, high = runs.spread(row, name)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"

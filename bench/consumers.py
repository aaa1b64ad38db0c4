"""Consumers side by side: all read the same topics of one Moldau broker, again and again."""

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


POLL = "moldau: poll"
ITERATE = "moldau: for record in consumer"
ARROW = "moldau: poll_arrow"
ASYNC = "moldau: AsyncConsumer.poll"
CONFLUENT = "confluent-kafka: consume"
AIOKAFKA = "aiokafka: getmany"
KAFKA_PYTHON = "kafka-python: poll"

WAYS = {
    POLL: "moldau_poll",
    ITERATE: "moldau_iterate",
    ARROW: "moldau_arrow",
    ASYNC: "moldau_async",
    CONFLUENT: "confluent_poll",
    AIOKAFKA: "aiokafka_poll",
    KAFKA_PYTHON: "kafka_python_poll",
}
SLOW = {KAFKA_PYTHON: 0.2}
"""Those that read only a part."""

HEADINGS = ("consumer", "100 B records/s", "CPU µs each", "1 KB records/s", "CPU µs each")
GOALS = [
    ("poll, beside aiokafka", POLL, AIOKAFKA),
    ("poll with asyncio, beside aiokafka", ASYNC, AIOKAFKA),
    ("poll, beside confluent-kafka", POLL, CONFLUENT),
    ("poll_arrow, beside confluent-kafka", ARROW, CONFLUENT),
]


class Scale(NamedTuple):
    records: int
    rounds: int


FULL = Scale(900_000, 5)
QUICK = Scale(150_000, 1)


def run(scale: Scale, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
        target = Moldau(Path(directory))
        target.start()
        try:
            counts = {100: scale.records, 1000: scale.records // 5}
            for size, count in counts.items():
                _fill(target.address, f"read-{size}", size, count)
            for number in range(scale.rounds):
                say(f"consumers, round {number + 1} of {scale.rounds}")
                for title, load in WAYS.items():
                    for size, count in counts.items():
                        share = int(count * SLOW.get(title, 1.0))
                        taken = _load(load, target.address, f"read-{size}", share)
                        runs.add(f"rate_{size}", Name(title), taken["records_per_second"])
                        runs.add(f"cpu_{size}", Name(title), taken["cpu_us"])
        finally:
            target.stop()
    return runs


def _fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    from moldau import Admin, NewTopic, Producer

    with Admin(bootstrap_servers=bootstrap) as admin:
        for outcome in admin.create_topics([NewTopic(topic, PARTITIONS)]):
            outcome.get()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for start in range(0, count, 1000):
            values = [b"x" * size] * min(1000, count - start)
            producer.send_many(topic, values, partition=start // 1000 % PARTITIONS)
        producer.flush()


def _load(name: str, bootstrap: str, topic: str, records: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.consumer_loads", name, bootstrap, topic]
    done = subprocess.run(
        [*command, str(PARTITIONS), str(records)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def lines(runs: Runs) -> list[tuple[str, ...]]:
    """One line per way of reading, the medians of its rounds."""
    return [
        (
            title,
            *(_figure(runs, row, title, digits) for row, digits in _ROWS),
        )
        for title in WAYS
    ]


_ROWS = (("rate_100", 0), ("cpu_100", 2), ("rate_1000", 0), ("cpu_1000", 2))


def goals(runs: Runs) -> list[tuple[str, ...]]:
    """What we set out to reach, as ratios of the medians of 100 B records."""
    found: list[tuple[str, ...]] = []
    for title, ours, theirs in GOALS:
        one, other = runs.median("rate_100", ours), runs.median("rate_100", theirs)
        if one is not None and other is not None:
            ratio = one / other
            found.append((title, f"{ratio:.2f}", "≥ 1 ×", "yes" if ratio >= 1 else "no"))
    return found


def _figure(runs: Runs, row: str, name: str, digits: int) -> str:
    middle = runs.median(row, name)
    if middle is None:
        return ""
    low, high = runs.spread(row, name)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"

"""The broker comparison: Moldau and Apache Kafka on this machine, in one run, in turns.

Each round runs every row against one broker and then the other, with the order swapped from round
to round; a row's figure is the median of its rounds. CPU is what the broker's process used, so a
noisy neighbour disturbs it less than it disturbs time.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from bench import loads
from bench.report import Goal, Row
from bench.targets import Kafka, Moldau, Target, cpu_seconds, resident_mb, time_to_first_record

MB = 1_000_000
GB = 1_000_000_000
SETTLE_S = 2.0


class Scale(NamedTuple):
    """How much each row does; ``quick`` is for trying things out, not for figures."""

    rounds: int
    single: int
    pipelined: int
    batches_16k: int
    batches_1m: int
    fetches_1m: int
    fetches_64k: int


FULL = Scale(5, 4000, 40_000, 6000, 300, 1000, 6000)
QUICK = Scale(2, 1000, 8000, 1500, 80, 200, 1500)

ROWS: list[Row] = [
    Row(
        "start",
        "start to first acknowledged record",
        "s",
        2,
        Goal(at_most_ratio=1 / 8, at_most=0.6),
    ),
    Row("idle", "resident memory, idle", "MB", 0, Goal(at_most=70)),
    Row("loaded", "resident memory, after load", "MB", 0, Goal(at_most=120)),
    Row(
        "single_cpu",
        "1-record requests, one at a time: CPU per request",
        "µs",
        0,
        Goal(at_most_ratio=1 / 2),
    ),
    Row("single_latency", "1-record requests, one at a time: time per request", "µs", 0),
    Row("pipelined", "1-record requests, 16 in flight", "requests/s", 0, Goal(at_least_ratio=2.5)),
    Row("pipelined_cpu", "1-record requests, 16 in flight: CPU per request", "µs", 1),
    Row("batch16k", "16 KB batches, 5 in flight", "MB/s", 0, Goal(at_least_ratio=2.5)),
    Row("batch16k_cpu", "16 KB batches: CPU per GB", "s", 2),
    Row("batch1m", "1 MB batches, 5 in flight", "MB/s", 0, Goal(at_least_ratio=2)),
    Row("batch1m_cpu", "1 MB batches: CPU per GB", "s", 2),
    Row("fetch1m_cpu", "fetch 1 MB: CPU per GB", "s", 2, Goal(at_most=0.40)),
    Row("fetch1m", "fetch 1 MB", "MB/s", 0),
    Row("fetch64k_cpu", "fetch 64 KB: CPU per GB", "s", 2, Goal(at_most_ratio=1 / 2)),
    Row("fetch64k", "fetch 64 KB", "MB/s", 0),
]


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Runs:
    """Figures by row and broker (or client), one per round."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, target: Named, figure: float) -> None:
        self._figures[row, target.name].append(figure)

    def median(self, row: str, target_name: str) -> float | None:
        figures = self._figures.get((row, target_name))
        return statistics.median(figures) if figures else None

    def spread(self, row: str, target_name: str) -> tuple[float, float]:
        figures = self._figures[row, target_name]
        return min(figures), max(figures)


def run(scale: Scale, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    with _both() as targets:
        for number in range(scale.rounds):
            ordered = targets if number % 2 == 0 else targets[::-1]
            for target in ordered:
                say(f"round {number + 1}/{scale.rounds}: start {target.name}")
                runs.add("start", target, time_to_first_record(target))
                time.sleep(SETTLE_S)
                runs.add("idle", target, resident_mb(target.pid))
            # Both run while each is loaded in turn: neither has the machine's memory to itself.
            for work in (_single, _pipelined, _batches_16k, _batches_1m, _fetches):
                for target in ordered:
                    say(f"round {number + 1}/{scale.rounds}: {work.__name__[1:]} on {target.name}")
                    work(target, scale, runs)
            for target in ordered:
                runs.add("loaded", target, resident_mb(target.pid))
                target.stop()
    return runs


@contextmanager
def _both() -> Iterator[list[Target]]:
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
        targets: list[Target] = [
            Moldau(Path(directory) / "moldau"),
            Kafka(Path(directory) / "kafka"),
        ]
        try:
            # The first start formats directories and warms the page cache with programs; it is not
            # measured.
            for target in targets:
                target.start()
                target.stop()
            yield targets
        finally:
            for target in targets:
                target.stop()


_topic_numbers = itertools.count()


def _new_topic(target: Target) -> str:
    topic = f"bench-{next(_topic_numbers)}"
    loads.first_acknowledged_record(
        target.address, topic, loads.batch_of(100), time.monotonic() + 30
    )
    return topic


@contextmanager
def _cpu(target: Target) -> Iterator[Callable[[], float]]:
    before = cpu_seconds(target.pid)
    yield lambda: cpu_seconds(target.pid) - before


def _single(target: Target, scale: Scale, runs: Runs) -> None:
    topic, batch = _new_topic(target), loads.batch_of(100)
    _warm(target, topic, batch)
    with _cpu(target) as used:
        outcome = loads.produce(
            target.address, topic, batch, requests=scale.single, in_flight=1, records=1
        )
        runs.add("single_cpu", target, used() / outcome.requests * 1e6)
    runs.add("single_latency", target, outcome.seconds / outcome.requests * 1e6)


def _pipelined(target: Target, scale: Scale, runs: Runs) -> None:
    topic, batch = _new_topic(target), loads.batch_of(100)
    _warm(target, topic, batch)
    with _cpu(target) as used:
        outcome = loads.produce(
            target.address, topic, batch, requests=scale.pipelined, in_flight=16, records=1
        )
        runs.add("pipelined_cpu", target, used() / outcome.requests * 1e6)
    runs.add("pipelined", target, outcome.requests / outcome.seconds)


def _warm(target: Target, topic: str, batch: bytes) -> None:
    loads.produce(target.address, topic, batch, requests=500, in_flight=4, records=1)


def _batches_16k(target: Target, scale: Scale, runs: Runs) -> None:
    _batches(target, runs, "batch16k", 16, scale.batches_16k)


def _batches_1m(target: Target, scale: Scale, runs: Runs) -> None:
    _batches(target, runs, "batch1m", 1000, scale.batches_1m)


def _batches(target: Target, runs: Runs, row: str, records: int, requests: int) -> None:
    topic, batch = _new_topic(target), loads.batch_of(records * 1000)
    loads.produce(
        target.address, topic, batch, requests=max(5, requests // 20), in_flight=5, records=records
    )
    with _cpu(target) as used:
        outcome = loads.produce(
            target.address, topic, batch, requests=requests, in_flight=5, records=records
        )
        runs.add(f"{row}_cpu", target, used() / outcome.payload_bytes * GB)
    runs.add(row, target, outcome.payload_bytes / outcome.seconds / MB)


def _fetches(target: Target, scale: Scale, runs: Runs) -> None:
    topic, batch = _new_topic(target), loads.batch_of(16_000)
    loads.produce(target.address, topic, batch, requests=8000, in_flight=5, records=16)
    last = 8000 * 16
    for row, size, count in (
        ("fetch1m", 1 << 20, scale.fetches_1m),
        ("fetch64k", 1 << 16, scale.fetches_64k),
    ):
        records_per_fetch = size // 1000
        positions = range(0, last - 2 * records_per_fetch, records_per_fetch)
        offsets = list(itertools.islice(itertools.cycle(positions), count))
        loads.fetch(target.address, topic, offsets[: count // 10], size)
        with _cpu(target) as used:
            outcome = loads.fetch(target.address, topic, offsets, size)
            runs.add(f"{row}_cpu", target, used() / outcome.payload_bytes * GB)
        runs.add(row, target, outcome.payload_bytes / outcome.seconds / MB)

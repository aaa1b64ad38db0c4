"""Latency at fixed rates, in an open loop, and consumers at the head of a partition.

Percentiles are those of all rounds together. What a wake-up costs the broker is the CPU time of the
same producing with consumers and without them, divided by the wake-ups.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import NamedTuple

from bench import loads, measuring, open_loop, requests
from bench.comparison import load_text, warm_up
from bench.figures import Runs
from bench.old_data import fetch_frames, fill
from bench.processes import cpu_seconds
from bench.report import OURS, THEIRS, Goal, Table, met_text, ratio_text
from bench.session import Session
from bench.shapes import at_the_head, produce_on
from bench.targets import Target, brokers, in_turns

BATCH = requests.batch_of(100)
MICROSECONDS, MILLISECONDS = 1e6, 1e3
WARMING_ROUND_S = 0.8


class Scale(NamedTuple):
    rounds: int
    seconds: float
    warming_s: float
    old_batches: int


FULL = Scale(5, 3, 120, 2000)
QUICK = Scale(1, 0.2, 0, 200)


class Shape(NamedTuple):
    key: str
    title: str
    rate: int
    connections: int = 1
    consumers: int = 0
    beside_old_reader: bool = False
    cpu_goal: Goal | None = None


WAKE_UP = Goal(at_most_ratio=0.6)
NO_LATER = Goal(at_most_ratio=1)

SHAPES = [
    Shape("produce500", "produce, 500/s on 10 connections", 500, 10),
    Shape("produce2000", "produce, 2,000/s on 10 connections", 2000, 10),
    Shape("produce8000", "produce, 8,000/s on 10 connections", 8000, 10),
    Shape("head1", "1 consumer at the head, 500/s", 500, 1, 1, cpu_goal=WAKE_UP),
    Shape("head10", "10 consumers at the head, 200/s", 200, 1, 10, cpu_goal=WAKE_UP),
    Shape("beside", "10 consumers at the head, 200/s, beside a reader of old data", 200, 1, 10,
          beside_old_reader=True),
]  # fmt: skip


class Latencies:
    """Of each shape and broker, all rounds together."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = {}

    def add(self, shape: Shape, target: Target, seconds: list[float]) -> None:
        self._seconds.setdefault((shape.key, target.name), []).extend(seconds)

    def add_percentiles(self, runs: Runs, shape: Shape, target: Target) -> None:
        cuts = statistics.quantiles(self._seconds[shape.key, target.name], n=1000)
        for name, number in (("p50", 500), ("p99", 990), ("p999", 999)):
            runs.add(f"{shape.key}_{name}", target, cuts[number - 1] * MILLISECONDS)


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    runs = Runs()
    with brokers(session.both) as targets:
        for target in targets:
            target.start()
            fill(target, scale.old_batches)
        # At full speed: at the rates below, a JVM would take many minutes to compile anything.
        warming = [produce_on(10, WARMING_ROUND_S), at_the_head(WARMING_ROUND_S)]
        notes = warm_up(targets, warming, scale.warming_s, session.say)
        measure(targets, SHAPES, scale, runs, session.say)
    return [table(f"Latency, {scale.rounds} rounds together", SHAPES, runs, notes)]


def measure(
    targets: Sequence[Target],
    shapes: Sequence[Shape],
    scale: Scale,
    runs: Runs,
    say: Callable[[str], None],
) -> None:
    """Runs the shapes in turns, and adds the percentiles of all rounds."""
    latencies = Latencies()
    for number in range(scale.rounds):
        say(f"latency, round {number + 1}/{scale.rounds}")
        for shape in shapes:
            for target in in_turns(targets, number):
                _measure(target, shape, scale, runs, latencies)
    for shape in shapes:
        for target in targets:
            latencies.add_percentiles(runs, shape, target)


def _measure(target: Target, shape: Shape, scale: Scale, runs: Runs, latencies: Latencies) -> float:
    """Returns the broker's CPU time per request, or per wake-up, in microseconds."""
    outcome, cpu = _run(target, shape, scale)
    runs.add(f"{shape.key}_load", target, outcome.cpu_seconds / outcome.seconds)
    latencies.add(shape, target, outcome.consumed if shape.consumers else outcome.answered)
    if shape.beside_old_reader:
        return 0.0  # who reads as fast as it can takes what the others leave
    if shape.consumers:
        _, without = _run(target, shape._replace(consumers=0), scale)
        cost = max(0.0, cpu - without) / outcome.wake_ups
    else:
        cost = cpu / len(outcome.answered)
    runs.add(f"{shape.key}_cpu", target, cost * MICROSECONDS)
    return cost * MICROSECONDS


def _run(target: Target, shape: Shape, scale: Scale) -> tuple[open_loop.Outcome, float]:
    """Returns the CPU time of the broker, too, in seconds."""
    with measuring.new_topic(target) as topic, _old_reader(target, shape, scale):
        offset = requests.count_records(target.address, topic)
        before = cpu_seconds(*target.pids)
        outcome = open_loop.run(
            target.address,
            topic,
            requests.produce_frame(topic, BATCH),
            rate=shape.rate,
            seconds=scale.seconds,
            connections=shape.connections,
            consumers=shape.consumers,
            offset=offset,
            batch_size=len(BATCH),
        )
        return outcome, cpu_seconds(*target.pids) - before


@contextmanager
def _old_reader(target: Target, shape: Shape, scale: Scale) -> Iterator[None]:
    """Another process that fetches old data, 64 KB at a time, as fast as it can."""
    if not shape.beside_old_reader:
        yield
        return
    context = multiprocessing.get_context("spawn")
    reading = context.Event()
    frames = fetch_frames(1 << 16, scale.old_batches)
    process = context.Process(
        target=_read_old, args=(target.address, frames, scale.seconds, reading)
    )
    process.start()
    try:
        reading.wait(requests.TIMEOUT_S)
        yield
    finally:
        process.join()
    if process.exitcode:
        raise requests.LoadError("the reader of old data has failed")


def _read_old(address: str, frames: list[bytes], seconds: float, reading: Event) -> None:
    load = loads.Load(address, frames, in_flight=1)
    reading.set()
    loads.run([load], seconds)


def table(title: str, shapes: Sequence[Shape], runs: Runs, notes: Sequence[str] = ()) -> Table:
    percentiles = ("p50", "p99", "p999")
    headings = ["work"]
    for name in (OURS, THEIRS):
        headings += [f"{name}, p50 ms", "p99", "p99.9"]
    headings += ["p99 ratio", "goal", "", "CPU µs each", THEIRS, "ratio", "goal", "",
                 "load, of a core"]  # fmt: skip
    lines = []
    for shape in shapes:
        line = [shape.title]
        for name in (OURS, THEIRS):
            line += [runs.middle(f"{shape.key}_{which}", name, 2) for which in percentiles]
        p99, cpu = f"{shape.key}_p99", f"{shape.key}_cpu"
        line += [ratio_text(runs, p99), NO_LATER.text(), met_text(NO_LATER, runs, p99)]
        line += [runs.text(cpu, name, 1) for name in (OURS, THEIRS)]
        goal = shape.cpu_goal
        line += [ratio_text(runs, cpu), goal.text() if goal else "", met_text(goal, runs, cpu)]
        lines.append([*line, load_text(runs, f"{shape.key}_load")])
    return Table(title, headings, lines, notes)

"""One broker: Moldau, compiled and plain, beside Apache Kafka, cold and warm.

Every broker is started some times. Each start gives the time to the first record, the memory of an
idle broker, and the cold figures: the first second of each load on a fresh broker. The last ones
stay; they are warmed up until their figures are steady, and measured in turns, round by round, each
figure the median of its rounds. CPU is what the broker's process used: a noisy neighbour disturbs
it less than it disturbs time, so that steadiness is judged by it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import measuring
from bench.comparison import Work, comparison, run_in_turns, summary, warm_up
from bench.figures import Runs
from bench.measuring import Measurement
from bench.old_data import fetch_frames, fill
from bench.processes import resident_mb
from bench.report import OURS, Goal, Row, Table, compare
from bench.requests import batch_of
from bench.session import Session
from bench.targets import (
    Target,
    brokers,
    has_machine_code,
    in_turns,
    time_to_first_record,
)

SETTLE_S = 1.0


class Scale(NamedTuple):
    starts: int
    rounds: int
    seconds: float
    """Of one load."""
    warming_s: float
    """The most CPU time that a JVM has to warm up."""
    old_batches: int
    """Of 16 KB, for the fetches."""


FULL = Scale(3, 7, 0.8, 120, 8000)
QUICK = Scale(1, 1, 0.05, 0, 200)


def works(scale: Scale) -> list[Work]:
    """The six loads, each with its goals beside a warm Kafka: throughput and CPU."""

    def produce(key: str, title: str, size: int, in_flight: int, rate: float, cpu: float) -> Work:
        batch, records = batch_of(size), max(1, size // 1000)

        def run(target: Target) -> Measurement:
            return measuring.produce(
                target, batch, records=records, in_flight=in_flight, seconds=scale.seconds
            )

        return Work(key, title, run, Goal(at_least_ratio=rate), Goal(at_most_ratio=cpu))

    def fetch(key: str, title: str, size: int, rate: float, cpu: float) -> Work:
        frames = fetch_frames(size, scale.old_batches)

        def run(target: Target) -> Measurement:
            return measuring.fetch(target, frames, size=size, seconds=scale.seconds)

        return Work(key, title, run, Goal(at_least_ratio=rate), Goal(at_most_ratio=cpu))

    return [
        produce("single", "1 record, one at a time", 100, 1, rate=1.3, cpu=0.6),
        produce("pipelined", "1 record, 16 in flight", 100, 16, rate=3.5, cpu=0.35),
        produce("16k", "16 KB batches, 5 in flight", 16_000, 5, rate=2.5, cpu=0.4),
        produce("1m", "1 MB batches, 5 in flight", 1_000_000, 5, rate=1.5, cpu=0.6),
        fetch("fetch64k", "fetch 64 KB", 1 << 16, rate=1.3, cpu=0.7),
        fetch("fetch1m", "fetch 1 MB", 1 << 20, rate=1.1, cpu=0.75),
    ]


PROCESS_ROWS = [
    Row("start", "start to first acknowledged record", "s", 2, Goal(at_most=0.6)),
    Row("idle", "resident memory, idle", "MB", 0, Goal(at_most=70)),
    Row("loaded", "resident memory, after all loads", "MB", 0, Goal(at_most=120)),
]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    loads = works(scale)
    cold, runs = Runs(), Runs()
    with brokers(session.kinds) as targets:
        for target in targets:
            # The first start formats directories and brings programs into memory; not measured.
            target.start()
            fill(target, scale.old_batches)
        for number in range(scale.starts):
            for target in in_turns(targets, number):
                session.say(f"cold, start {number + 1}/{scale.starts}: {target.name}")
                target.stop()
                _start_cold(target, loads, runs, cold)
        notes = warm_up(targets, loads, scale.warming_s, session.say)
        run_in_turns(targets, loads, scale.rounds, runs, session.say)
        for target in targets:
            runs.add("loaded", target, resident_mb(target.pid))
            if target.name == OURS and not has_machine_code(target.pid):
                notes.append(f"{OURS} was **not compiled**: both columns are plain Python.")
    first = f"the first {scale.seconds:g} s of each load on a broker that has just started"
    return [
        comparison(f"Warm: medians of {scale.rounds} rounds", loads, runs, notes),
        comparison(f"Cold: {first}, medians of {scale.starts} starts", _no_goals(loads), cold),
        compare("The process", PROCESS_ROWS, runs),
        summary("Beside a warm Kafka", loads, PROCESS_ROWS, runs, notes),
    ]


def _start_cold(target: Target, loads: Sequence[Work], runs: Runs, cold: Runs) -> None:
    runs.add("start", target, time_to_first_record(target))
    time.sleep(SETTLE_S)
    runs.add("idle", target, resident_mb(target.pid))
    for work in loads:
        work.run(target).add_to(cold, work.key, target)


def _no_goals(loads: Sequence[Work]) -> list[Work]:
    return [work._replace(rate_goal=None, cpu_goal=None) for work in loads]

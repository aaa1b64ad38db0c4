"""Three brokers, every partition on all of them, ``acks=all``: Moldau beside Apache Kafka.

The leader of every partition is the first broker, to which all loads go; CPU and memory are those
of all processes, with Moldau that of the coordination process, too. Both clusters run on the cores
of this one machine, so that they show what replication costs, not what more machines would give.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from bench import latency, measuring
from bench.clusters import as_targets, clusters
from bench.comparison import Work, comparison, run_in_turns, warm_up
from bench.figures import Runs
from bench.latency import Shape
from bench.measuring import Measurement
from bench.processes import resident_mb
from bench.report import Goal, Row, Table, compare
from bench.requests import batch_of
from bench.session import Session
from bench.targets import Target

SETTLE_S = 1.0


class Scale(NamedTuple):
    rounds: int
    seconds: float
    """Of one load."""
    warming_s: float
    latency: latency.Scale


FULL = Scale(5, 0.8, 90, latency.FULL._replace(rounds=3, seconds=2))
QUICK = Scale(1, 0.05, 0, latency.QUICK)

SHAPES = [
    Shape("produce500", "produce, 500/s on 10 connections", 500, 10),
    Shape("produce2000", "produce, 2,000/s on 10 connections", 2000, 10),
    Shape("head1", "1 consumer at the head, 500/s", 500, 1, 1),
]

PROCESSES_ROWS = [
    Row("idle", "resident memory, idle", "MB", 0, Goal(at_most_ratio=0.25)),
    Row("loaded", "resident memory, after all loads", "MB", 0, Goal(at_most_ratio=0.25)),
    Row("16k_gb", "CPU time, 16 KB batches", "s/GB", 2),
    Row("1m_gb", "CPU time, 1 MB batches", "s/GB", 2),
]


def works(scale: Scale, runs: Runs) -> list[Work]:
    """What they cost for a gigabyte is noted in ``runs``, too."""

    def produce(key: str, title: str, size: int, in_flight: int, rate: float | None) -> Work:
        batch, records = batch_of(size), max(1, size // 1000)

        def run(target: Target) -> Measurement:
            measured = measuring.produce(
                target, batch, records=records, in_flight=in_flight, seconds=scale.seconds
            )
            # Microseconds for a batch are as many seconds for a million of them.
            runs.add(f"{key}_gb", target, measured.cpu_us * 1000 / len(batch))
            return measured

        return Work(key, title, run, None if rate is None else Goal(at_least_ratio=rate))

    return [
        produce("single", "1 record, one at a time", 100, 1, rate=None),
        produce("pipelined", "1 record, 16 in flight", 100, 16, rate=2),
        produce("16k", "16 KB batches, 5 in flight", 16_000, 5, rate=1.5),
        produce("1m", "1 MB batches, 5 in flight", 1_000_000, 5, rate=1),
    ]


def run(session: Session) -> list[Table]:
    scale, runs = QUICK if session.quick else FULL, Runs()
    loads = works(scale, runs)
    with clusters(session.both) as running:
        targets = as_targets(running)
        for target in targets:
            session.say(f"starting {target.name}")
            target.start()
            time.sleep(SETTLE_S)
            runs.add("idle", target, resident_mb(*target.pids))
        notes = warm_up(targets, works(scale, Runs()), scale.warming_s, session.say)
        run_in_turns(targets, loads, scale.rounds, runs, session.say)
        latency.measure(targets, SHAPES, scale.latency, runs, session.say)
        for target in targets:
            runs.add("loaded", target, resident_mb(*target.pids))
    return [
        comparison(f"Three brokers: medians of {scale.rounds} rounds", loads, runs, notes),
        latency.table(
            f"Three brokers: latency, {scale.latency.rounds} rounds together", SHAPES, runs
        ),
        compare("Three brokers: all processes together", PROCESSES_ROWS, runs),
    ]

"""Pipelines: one with three sinks beside three plain Structured Streaming queries, and one sink.

Both sides read JSON from one topic of one Moldau broker, in one Spark session, to its end, with as
many shuffle partitions as there are cores. The plain queries use the official connector and are
written as its guide says. With three sinks, all rows go to Parquet, some to a topic, and counts by
a window to another topic; the plain queries run at the same time, each with its checkpoint.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Runs
from bench.pipeline_work import Job, load
from bench.processes import cpu_seconds, family_cpu_seconds
from bench.report import Goal, Row, Table, compare
from bench.session import Session
from bench.spark import (
    CONNECTOR,
    LOAD,
    MASTER,
    OURS,
    THEIRS,
    WARMING_LOAD,
    Scale,
    Side,
    jars,
    new_spark,
)
from bench.targets import Moldau, brokers
from bench.warming import warm
from moldau.spark.pipeline.cores import PARTITIONS, local_partitions

FULL = Scale(1_000_000, 100_000, 5, 120)
QUICK = Scale(5000, 1000, 1, 0)

WORK = {
    "three": ("three sinks", Goal(at_least_ratio=1.5)),
    "from_json": ("one Parquet sink, from_json", Goal(at_least_ratio=1)),
    "value_format": ("one Parquet sink, value_format beside from_json", Goal(at_least_ratio=1)),
}


def rows(scale: Scale) -> list[Row]:
    return [
        row
        for key, (title, goal) in WORK.items()
        for row in (
            Row(f"{key}_cold", f"{scale.warming_records:,} records, {title}, cold", "s", 2),
            Row(key, f"{scale.records:,} records, {title}", "rows/s", 0, goal),
            Row(f"{key}_s", "the same: time", "s", 2),
            Row(f"{key}_cpu", "the same: CPU of Spark, its Python processes and broker", "s", 2),
        )
    ]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    sides = [OURS, THEIRS] if session.has_kafka else [OURS]
    runs = Runs()
    with TemporaryDirectory(prefix="moldau-bench-") as directory, brokers([Moldau]) as (broker,):
        broker.start()
        for topic, records in ((WARMING_LOAD, scale.warming_records), (LOAD, scale.records)):
            load(broker.address, topic, records)
        session.say(f"{scale.records:,} records loaded")
        config = {PARTITIONS: local_partitions(MASTER) or ""}
        spark = new_spark(directory, jars() if session.has_kafka else [], config)
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        jvm = gateway.proc.pid

        def cpu() -> float:
            """The driver is this process."""
            return family_cpu_seconds(jvm) + cpu_seconds(broker.pid) + time.process_time()

        def job(side: Side, topic: str, records: int) -> Job:
            return Job(spark, broker.address, side, records, topic, Path(directory), cpu)

        try:
            small = [job(side, WARMING_LOAD, scale.warming_records) for side in sides]
            notes = [_warm(small, scale, runs)]
            session.say(notes[-1])
            # The first round, which is the first with all records, does not count.
            for turn, key in itertools.product(range(scale.rounds + 1), WORK):
                for side in sides if turn % 2 == 0 else sides[::-1]:
                    spent = job(side, LOAD, scale.records).run(key)
                    took = f"{spent.seconds:.2f} s, CPU {spent.cpu_seconds:.2f} s"
                    session.say(f"round {turn}, {key}, {side.name}: {took}")
                    if turn:
                        runs.add(key, side, scale.records / spent.seconds)
                        runs.add(f"{key}_s", side, spent.seconds)
                        runs.add(f"{key}_cpu", side, spent.cpu_seconds)
        finally:
            spark.stop()
    title = f"Pipelines, {MASTER}, one Moldau broker, medians of {scale.rounds} rounds"
    return [compare(title, rows(scale), runs, notes, theirs=CONNECTOR)]


def _warm(jobs: Sequence[Job], scale: Scale, runs: Runs) -> str:
    """Runs every job on the small topic until its time is steady; the first one is cold."""

    def seconds_of(key: str, job: Job) -> Callable[[], float]:
        runs.add(f"{key}_cold", job.side, job.run(key).seconds)
        return lambda: job.run(key).seconds

    work = {
        f"{title}, {job.side.name}": seconds_of(key, job)
        for key, (title, _) in WORK.items()
        for job in jobs
    }
    return warm(work, scale.warming_s).text("Spark")

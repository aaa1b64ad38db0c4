"""Three brokers, every partition on all of them, ``acks=all``: Moldau beside Apache Kafka.

The leader of every partition is the first broker, to which all loads go; CPU and memory are those
of all processes, with Moldau that of the coordination process, too. Both clusters run on the cores
of this one machine, so that they show what replication costs, not what more machines would give.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import latency, measuring, requests
from bench.clusters import BROKERS, Cluster, as_targets, clusters
from bench.comparison import Work, comparison, run_in_turns, warm_up
from bench.figures import Runs
from bench.latency import Shape
from bench.measuring import Measurement
from bench.processes import cpu_seconds, resident_mb
from bench.report import Goal, Row, Table, compare
from bench.requests import LoadError, batch_of
from bench.session import Session
from bench.targets import Target

MICROSECONDS = 1e6
SETTLE_S = 1.0
FAILOVER_LIMIT_S = 120.0
ASKING_AGAIN_S = 0.01


class Scale(NamedTuple):
    rounds: int
    seconds: float
    """Of one load."""
    warming_s: float
    failovers: int
    quiet: Sequence[int]
    """How many partitions there are beside the one that is written to."""


FULL = Scale(5, 0.8, 180, 3, (0, 1000, 10_000))
QUICK = Scale(1, 0.05, 0, 1, (0, 10))

SHAPES = [
    Shape("produce500", "produce, 500/s on 10 connections", 500, 10),
    Shape("produce2000", "produce, 2,000/s on 10 connections", 2000, 10),
    Shape("head1", "1 consumer at the head, 500/s", 500, 1, 1),
]

MEMORY_ROWS = [
    Row("idle", "resident memory of all processes, idle", "MB", 0, Goal(at_most_ratio=0.25)),
    Row("loaded", "resident memory of all processes, after all loads", "MB", 0,
        Goal(at_most_ratio=0.25)),
]  # fmt: skip

FAILOVER_ROWS = [
    Row("failover", "kill -9 of the leader to the next acknowledged record", "s", 2,
        Goal(at_most_ratio=1)),
]  # fmt: skip


def works(scale: Scale) -> list[Work]:
    def produce(key: str, title: str, size: int, in_flight: int, rate: float | None) -> Work:
        batch, records = batch_of(size), max(1, size // 1000)

        def run(target: Target) -> Measurement:
            return measuring.produce(
                target, batch, records=records, in_flight=in_flight, seconds=scale.seconds
            )

        return Work(key, title, run, None if rate is None else Goal(at_least_ratio=rate))

    return [
        produce("single", "1 record, one at a time", 100, 1, rate=None),
        produce("pipelined", "1 record, 16 in flight", 100, 16, rate=2),
        produce("16k", "16 KB batches, 5 in flight", 16_000, 5, rate=1.5),
        produce("1m", "1 MB batches, 5 in flight", 1_000_000, 5, rate=1),
    ]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    loads, runs = works(scale), Runs()
    latency_scale = latency.QUICK if session.quick else latency.FULL
    with clusters(session.both) as running:
        targets = as_targets(running)
        for target in targets:
            session.say(f"starting {target.name}")
            target.start()
            time.sleep(SETTLE_S)
            runs.add("idle", target, resident_mb(*target.pids))
        notes = warm_up(targets, loads, scale.warming_s, session.say)
        run_in_turns(targets, loads, scale.rounds, runs, session.say)
        latency.measure(targets, SHAPES, latency_scale, runs, session.say)
        for target in targets:
            runs.add("loaded", target, resident_mb(*target.pids))
        for number in range(scale.failovers):
            for cluster in running:
                session.say(f"failover {number + 1}/{scale.failovers}: {cluster.name}")
                runs.add("failover", cluster, _failover(cluster, number))
    quiet, quiet_runs = _quiet_rows(scale), Runs()
    _beside_quiet_partitions(session, scale, quiet_runs)
    return [
        comparison(f"Three brokers: medians of {scale.rounds} rounds", loads, runs, notes),
        latency.table("Three brokers: latency", SHAPES, runs),
        compare("Three brokers: memory", MEMORY_ROWS, runs),
        compare("Three brokers: the leader dies", FAILOVER_ROWS, runs),
        compare("Three brokers: one partition is written to, others are quiet", quiet, quiet_runs),
    ]


def _failover(cluster: Cluster, number: int) -> float:
    """Seconds from the death of a leader to the first record that its successor acknowledges."""
    topic = f"failover-{number}"
    leader, *others = BROKERS
    requests.create_topic(cluster.address, topic, replicas=BROKERS)
    frame = requests.produce_frame(topic, batch_of(100))
    survivors = [cluster.addresses()[node] for node in others]
    cluster.kill(leader)
    died = time.monotonic()
    while not any(_takes(address, frame, topic) for address in survivors):
        if time.monotonic() - died > FAILOVER_LIMIT_S:
            raise LoadError(f"nobody leads {topic} of {cluster.name}")
        time.sleep(ASKING_AGAIN_S)
    took = time.monotonic() - died
    cluster.revive(leader)
    return took


def _takes(address: str, frame: bytes, topic: str) -> bool:
    try:
        with requests.connect(address) as connection:
            connection.sendall(frame)
            requests.check_produced(requests.read_frame(connection), topic)
    except (OSError, LoadError):
        return False
    return True


def _quiet_rows(scale: Scale) -> list[Row]:
    return [
        row
        for count in scale.quiet
        for row in (
            Row(f"quiet{count}", f"1 record, 16 in flight, beside {count:,}: CPU of all brokers",
                "µs", 1),
            Row(f"quiet{count}_idle", f"nobody writes, {count:,} quiet: CPU of all brokers",
                "ms/s", 1),
        )
    ]  # fmt: skip


def _beside_quiet_partitions(session: Session, scale: Scale, runs: Runs) -> None:
    for kind in session.both:
        with clusters([kind]) as (cluster,):
            cluster.start()
            batch, made = batch_of(100), 0
            for count in scale.quiet:
                session.say(f"{count:,} quiet partitions on {cluster.name}")
                while made < count:
                    more = min(1000, count - made)
                    requests.create_topic(cluster.address, f"quiet-{made}", more, BROKERS)
                    made += more
                for _ in range(scale.rounds):
                    measured = measuring.produce(
                        cluster, batch, records=1, in_flight=16, seconds=scale.seconds
                    )
                    runs.add(f"quiet{count}", cluster, measured.cpu_us)
                    runs.add(f"quiet{count}_idle", cluster, _idle_cost(cluster, scale.seconds))


def _idle_cost(cluster: Cluster, seconds: float) -> float:
    """Milliseconds of CPU time that a second without any load costs."""
    before, started = cpu_seconds(*cluster.pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(*cluster.pids) - before) / (time.monotonic() - started) * 1000

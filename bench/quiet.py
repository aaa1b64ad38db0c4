"""Three brokers with many partitions, of which one is written to, or none.

What the quiet ones cost: the CPU time of all processes for a record, and for a second in which
nobody writes; memory; and how long a broker takes that comes back.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import measuring, requests
from bench.clusters import BROKERS, Cluster, clusters
from bench.figures import Runs
from bench.processes import cpu_seconds, resident_mb
from bench.report import Row, Table, compare
from bench.requests import batch_of
from bench.session import Session
from bench.waiting import until

PARTITIONS_PER_TOPIC = 1000
LIMIT_S = 240.0
ASKING_AGAIN_S = 0.1


class Scale(NamedTuple):
    rounds: int
    seconds: float
    """Of one load, and of one look at brokers that have nothing to do."""
    warming_rounds: int
    counts: Sequence[int]
    """How many partitions there are beside the one that is written to."""


FULL = Scale(5, 0.8, 15, (0, 1000, 10_000))
QUICK = Scale(1, 0.05, 0, (0, 10))


def run(session: Session) -> list[Table]:
    scale, runs = QUICK if session.quick else FULL, Runs()
    for kind in session.both:
        with clusters([kind]) as (cluster,):
            cluster.start()
            made = 0
            for count in scale.counts:
                session.say(f"{count:,} quiet partitions on {cluster.name}")
                for first in range(made, count, PARTITIONS_PER_TOPIC):
                    more = min(PARTITIONS_PER_TOPIC, count - first)
                    requests.create_topic(cluster.address, f"quiet-{first}", more, BROKERS)
                made = count
                _beside(cluster, count, scale, runs)
            session.say(f"a broker of {cluster.name} comes back")
            _comes_back(cluster, runs)
    most = f"{scale.counts[-1]:,}"
    rows = [
        *(
            Row(f"busy{count}", f"CPU time for a record, 16 in flight, beside {count:,}", "µs", 1)
            for count in scale.counts
        ),
        *(
            Row(f"idle{count}", f"CPU time, nobody writes to {count:,}", "ms/s", 1)
            for count in scale.counts
        ),
        *(
            Row(f"memory{count}", f"resident memory with {count:,}", "MB", 0)
            for count in scale.counts
        ),
        Row("ready", f"a broker with {most} comes back after kill -9: ready", "s", 2),
        Row("in_sync", f"a broker with {most} comes back after kill -9: all in sync", "s", 2),
    ]
    return [compare("Three brokers: quiet partitions", rows, runs)]


def _beside(cluster: Cluster, count: int, scale: Scale, runs: Runs) -> None:
    batch = batch_of(100)

    def produce() -> float:
        return measuring.produce(
            cluster, batch, records=1, in_flight=16, seconds=scale.seconds
        ).cpu_us

    for _ in range(scale.warming_rounds):
        produce()
    for _ in range(scale.rounds):
        runs.add(f"busy{count}", cluster, produce())
        runs.add(f"idle{count}", cluster, _idle_cost(cluster, scale.seconds))
    runs.add(f"memory{count}", cluster, resident_mb(*cluster.pids))


def _idle_cost(cluster: Cluster, seconds: float) -> float:
    """Milliseconds of CPU time that a second without any load costs."""
    before, started = cpu_seconds(*cluster.pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(*cluster.pids) - before) / (time.monotonic() - started) * 1000


def _comes_back(cluster: Cluster, runs: Runs) -> None:
    """A follower of all of them; it counts as gone before it is started again."""
    node = BROKERS[-1]
    in_sync = functools.partial(requests.in_sync, cluster.address)
    cluster.kill(node)
    until(lambda: in_sync(node) == 0, "its session ends", within=LIMIT_S, every=ASKING_AGAIN_S)
    started = time.monotonic()
    cluster.revive(node)
    runs.add("ready", cluster, time.monotonic() - started)
    until(
        lambda: in_sync(node) == in_sync(BROKERS[0]),
        "it is in sync",
        within=LIMIT_S,
        every=ASKING_AGAIN_S,
    )
    runs.add("in_sync", cluster, time.monotonic() - started)

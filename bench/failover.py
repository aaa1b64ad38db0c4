"""Three brokers, one of which is killed: until records are acknowledged again.

The leader of a partition, several times; and, among many partitions, the broker whose controller
is in office. Both sides notice a death by a session that ends, of 9 s by default.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench import requests
from bench.clusters import BROKERS, Cluster, clusters
from bench.figures import Runs
from bench.report import Goal, Row, Table, compare
from bench.requests import LoadError, batch_of
from bench.session import Session
from bench.waiting import until

LIMIT_S = 240.0
QUIET_S = 3.0
"""Before a leader dies. Whoever has just created a topic has just been heard."""


class Scale(NamedTuple):
    leaders: int
    """How many times a leader is killed."""
    topics: int
    partitions: int
    """Of each of the topics, when the controller is killed."""


FULL = Scale(3, 9, 1111)
QUICK = Scale(1, 3, 3)

NO_SLOWER = Goal(at_most_ratio=1)


def run(session: Session) -> list[Table]:
    scale, runs = QUICK if session.quick else FULL, Runs()
    with clusters(session.both) as running:
        for cluster in running:
            session.say(f"starting {cluster.name}")
            cluster.start()
        for number in range(scale.leaders):
            for cluster in running:
                session.say(f"a leader dies, {number + 1}/{scale.leaders}: {cluster.name}")
                runs.add("leader", cluster, _leader_dies(cluster, number))
    for kind in session.both:
        with clusters([kind]) as (cluster,):
            cluster.start()
            _controller_dies(cluster, scale, runs, session.say)
    many = f"the controller's broker, {scale.topics * scale.partitions:,} partitions"
    rows = [
        Row("leader", "a leader, to the next record of its partition", "s", 2, NO_SLOWER),
        Row("creates", f"{many}, to a record in a new topic", "s", 2, NO_SLOWER),
        Row("elects", f"{many}, to a record in each that it led", "s", 2, NO_SLOWER),
    ]
    return [compare("Three brokers: kill -9", rows, runs)]


def _leader_dies(cluster: Cluster, number: int) -> float:
    topic = f"failover-{number}"
    leader, *others = BROKERS
    requests.create_topic(cluster.address, topic, replicas=BROKERS)
    addresses = cluster.addresses()
    time.sleep(QUIET_S + number)  # at another moment between two heartbeats each time
    cluster.kill(leader)
    took = until(
        lambda: any(_takes(addresses[node], topic) for node in others), topic, within=LIMIT_S
    )
    cluster.revive(leader)
    return took


def _controller_dies(
    cluster: Cluster, scale: Scale, runs: Runs, say: Callable[[str], None]
) -> None:
    addresses = cluster.addresses()
    led: dict[int, list[str]] = {node: [] for node in BROKERS}
    for number in range(scale.topics):
        replicas = _from(BROKERS[number % len(BROKERS)])
        topic = f"many-{number}"
        requests.create_topic(addresses[replicas[0]], topic, scale.partitions, replicas)
        led[replicas[0]].append(topic)
    dead, *others = _from(cluster.controller())
    say(f"the controller dies: {cluster.name}, broker {dead}")
    cluster.kill(dead)
    died = time.monotonic()
    heir = addresses[others[0]]  # the first of the replicas that are left leads
    until(lambda: _creates(heir, "new", others), "a new topic", within=LIMIT_S)
    runs.add("creates", cluster, time.monotonic() - died)
    for topic in led[dead]:
        until(functools.partial(_takes, heir, topic), topic, within=LIMIT_S)
        requests.produce_to_all(heir, topic, scale.partitions)
    runs.add("elects", cluster, time.monotonic() - died)


def _from(node: int) -> tuple[int, ...]:
    """All brokers, beginning with this one."""
    at = BROKERS.index(node)
    return (*BROKERS[at:], *BROKERS[:at])


def _creates(address: str, topic: str, replicas: Sequence[int]) -> bool:
    try:
        requests.create_topic(address, topic, replicas=replicas)
    except (OSError, LoadError):
        return False
    return True


def _takes(address: str, topic: str) -> bool:
    try:
        with requests.connect(address) as connection:
            connection.sendall(requests.produce_frame(topic, batch_of(100)))
            requests.check_produced(requests.read_frame(connection), topic)
    except (OSError, LoadError):
        return False
    return True

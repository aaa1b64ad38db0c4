"""What a life is like, drawn from its seed.

Each life has a few of all possible clients and a few of all possible troubles: what goes wrong
together differs from life to life, and none is so full of everything that nothing gets done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

from moldau.client.listener import AckMode
from moldau.testing.simulation.load.administrating import TUNED


class Role(Enum):
    """Who reads."""

    CLASSIC = "classic"
    """Members of a classic group that commit what they were given."""
    AUTOMATIC = "automatic"
    """Members of a classic group whose offsets are committed by the consumer's timer."""
    MODERN = "modern"
    """Members of a group under the consumer protocol (KIP-848)."""
    LISTENER = "listeners"
    """A listener with a handler that takes its time."""
    READER = "reader"
    """A reader without a group."""


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    """How long there is trouble."""
    partitions: int
    delay: float
    """Seconds that most packets take at most."""
    disk_delay: float
    """Seconds that a sync takes at most."""
    synced: bool
    """Whether the broker syncs before it acknowledges."""
    broker_settings: dict[str, object]
    topic_settings: dict[str, str]
    producers: list[dict[str, Any]]
    roles: list[Role]
    max_poll_records: int
    strategy: str
    """How classic groups divide their partitions."""
    ack_mode: AckMode
    administrates: bool
    """Whether other topics come and go."""
    troubles: list[str]
    remote_coordination: bool
    """Whether the coordination store is elsewhere, as a ZooKeeper ensemble is."""
    compacted: bool
    """Whether of the topic only the last record of every key is kept."""
    deletes: bool
    """Whether an administrator deletes records."""
    retention: bool
    """Whether the broker deletes old records."""
    tuned: list[str]
    """The settings of the topic that are changed while it is in use."""
    elects: bool = False
    """Whether an administrator gives leaders back to the replicas that should lead."""
    rate: float = 4
    """How many times a second a producer sends some records, at least."""
    recreates: bool = False
    """Whether a topic is filled, read, deleted and made anew, again and again."""


def draw(
    random: Random, troubles: list[str], coordination_troubles: list[str], damages: list[str]
) -> Plan:
    """Returns the plan of a life."""
    plan = draw_basics(random, troubles)
    if random.random() < 0.3:
        names = random.sample(coordination_troubles, random.randrange(1, 3))
        plan = replace(plan, remote_coordination=True, troubles=plan.troubles + names)
    if random.random() < 0.25:
        compacting = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": random.choice(["0.01", "0.5"]),
            "internal.segment.bytes": "2000",
        }
        plan = replace(plan, compacted=True, topic_settings=plan.topic_settings | compacting)
    elif random.random() < 0.2:
        plan = replace(plan, deletes=True)
    elif random.random() < 0.1:
        limit = {"retention.bytes": "4000", "internal.segment.bytes": "2000"}
        plan = replace(plan, retention=True, topic_settings=plan.topic_settings | limit)
    if plan.administrates and random.random() < 0.5:
        # A topic that is synced by the broker's setting stays so.
        names = [name for name in TUNED if name != "flush.messages" or not plan.synced]
        plan = replace(plan, tuned=random.sample(names, 2))
    if random.random() < 0.25:
        plan = replace(plan, troubles=[*plan.troubles, random.choice(damages)])
    return plan


def draw_basics(random: Random, troubles: list[str]) -> Plan:
    """Returns the plan of a life with one topic that nothing is deleted from."""
    synced = random.random() < 0.5
    return Plan(
        seconds=5 + random.random() * 15,
        partitions=random.randrange(1, 4),
        delay=random.choice([0.001, 0.02, 0.2]),
        disk_delay=random.choice([0.005, 0.2]),
        synced=synced,
        broker_settings={
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": random.randrange(1, 4),
            "group.initial.rebalance.delay.ms": random.choice([0, 100]),
            "group.min.session.timeout.ms": 1_000,
            "group.consumer.session.timeout.ms": 4_000,
            "group.consumer.min.session.timeout.ms": 4_000,
            "group.consumer.heartbeat.interval.ms": 1_000,
            "group.consumer.min.heartbeat.interval.ms": 1_000,
            "log.flush.interval.messages": 1 if synced else 2**63 - 1,
            "log.flush.offset.checkpoint.interval.ms": random.choice([500, 5_000, 60_000]),
            "log.flush.start.offset.checkpoint.interval.ms": random.choice([500, 60_000]),
            "log.cleaner.backoff.ms": 1_000,
            "log.retention.check.interval.ms": 1_000,
            "log.initial.task.delay.ms": 1_000,
            "zookeeper.session.timeout.ms": 6_000,
        },
        topic_settings={
            "internal.segment.bytes": str(random.choice([2_000, 10_000, 1_000_000])),
            "index.interval.bytes": str(random.choice([1, 200, 4096])),
        },
        producers=[_producer(random) for _ in range(random.randrange(1, 3))],
        roles=random.sample(list(Role), 2),
        max_poll_records=random.choice([5, 500]),
        strategy=random.choice(["range", "roundrobin", "sticky", "cooperative-sticky"]),
        ack_mode=random.choice([AckMode.RECORD, AckMode.BATCH]),
        administrates=random.random() < 0.5,
        troubles=random.sample(troubles, random.randrange(1, 5)),
        remote_coordination=False,
        compacted=False,
        deletes=False,
        retention=False,
        tuned=[],
    )


def _producer(random: Random) -> dict[str, Any]:
    idempotent = random.random() < 0.7
    return {
        "enable_idempotence": idempotent,
        "acks": -1 if idempotent else random.choice([1, -1]),
        "max_in_flight_requests_per_connection": random.choice([1, 5]),
        "linger_ms": random.choice([0, 5, 50]),
        "batch_size": random.choice([500, 16_384]),
        "compression_type": random.choice(["none", "none", "lz4", "gzip"]),
    }

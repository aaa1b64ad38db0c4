"""What the life of a cluster is like, drawn from its seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from moldau.testing.simulation.lives.plan import Plan, draw_basics
from moldau.testing.simulation.load.administrating import TUNED


def draw_cluster(random: Random, troubles: list[str]) -> Plan:
    """Returns the plan of a life; more of its producers than elsewhere ask for ``acks=all``."""
    plan = draw_basics(random, troubles)
    synced = random.random() < 0.3
    plan = replace(
        plan,
        synced=synced,
        remote_coordination=True,
        broker_settings={
            **plan.broker_settings,
            "log.flush.interval.messages": 1 if synced else 2**63 - 1,
            "offsets.topic.num.partitions": random.randrange(1, 3),
            "replica.high.watermark.checkpoint.interval.ms": random.choice([500, 5_000]),
        },
        producers=[_asks_for_all(random, producer) for producer in plan.producers],
        roles=plan.roles[: random.randrange(1, 3)],
        elects=random.random() < 0.3,
        recreates=random.random() < 0.3,
    )
    if plan.administrates and random.random() < 0.5:
        names = [name for name in TUNED if name != "flush.messages" or not synced]
        plan = replace(plan, tuned=random.sample(names, 2))
    if random.random() < 0.15:
        plan = replace(plan, deletes=True)
    return plan


def _asks_for_all(random: Random, producer: dict[str, Any]) -> dict[str, Any]:
    if random.random() < 0.8:
        return {**producer, "enable_idempotence": True, "acks": -1}
    return producer

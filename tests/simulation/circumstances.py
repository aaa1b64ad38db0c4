"""What lives are about: plans that are bent so that a few seeds meet what matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.testing.simulation.lives.plan import Plan, Role


@dataclass(frozen=True)
class Circumstances:
    name: str
    adjust: Callable[[Plan], Plan]
    cluster: bool = False
    """Whether three brokers live, or one."""


def _flushing(plan: Plan, messages: int) -> dict[str, Any]:
    flush = {"log.flush.interval.messages": messages}
    return {
        "synced": messages == 1,
        "tuned": [name for name in plan.tuned if name != "flush.messages"],
        "broker_settings": {**plan.broker_settings, **flush},
        "disk_delay": 0.5,
        "seconds": 20,
    }


def _segments(plan: Plan) -> dict[str, str]:
    return {**plan.topic_settings, "internal.segment.bytes": "2000"}


def _crashes(plan: Plan) -> Plan:
    return replace(
        plan,
        seconds=20,
        topic_settings=_segments(plan),
        administrates=True,
        troubles=["kill", "power cut", "crash at an operation", "clean restart", "slow disk"],
    )


def _losses(plan: Plan) -> Plan:
    return replace(
        plan,
        **_flushing(plan, 2**63 - 1),
        topic_settings=_segments(plan),
        roles=[Role.CLASSIC, Role.READER],
        troubles=["power cut", "pause a client", "cut"],
    )


def _restarts(plan: Plan) -> Plan:
    return replace(
        plan,
        **_flushing(plan, 2**63 - 1) | {"disk_delay": 0.005},
        topic_settings=_segments(plan),
        troubles=["clean restart", "power cut"],
    )


def _synced(plan: Plan) -> Plan:
    return replace(
        plan,
        **_flushing(plan, 1),
        partitions=1,
        producers=[plan.producers[0], plan.producers[0]],
        roles=[Role.CLASSIC, Role.READER],
        administrates=True,
        troubles=["power cut", "crash at an operation"],
    )


def _in_flight(plan: Plan, troubles: list[str]) -> Plan:
    producer = {
        **plan.producers[0],
        "enable_idempotence": True,
        "acks": -1,
        "max_in_flight_requests_per_connection": 5,
        "linger_ms": 0,
        "batch_size": 500,
    }
    return replace(
        plan,
        **_flushing(plan, 1),
        partitions=1,
        delay=0.2,
        producers=[producer, producer],
        roles=[Role.READER],
        administrates=False,
        troubles=troubles,
    )


def _groups(plan: Plan) -> Plan:
    return replace(
        plan,
        partitions=3,
        roles=[Role.AUTOMATIC, Role.LISTENER],
        max_poll_records=5,
        strategy="range",
        troubles=["kill a client", "pause a client", "kill"],
    )


def _damages(plan: Plan) -> Plan:
    return replace(
        plan,
        seconds=20,
        topic_settings=_segments(plan),
        administrates=True,
        remote_coordination=False,
        troubles=["damaged store", "kill", "clean restart"],
    )


_KEEPING: Final = {"cleanup.policy": "delete", "retention.bytes": "-1"}


def _kept_for_ever(plan: Plan) -> Plan:
    """The broker's defaults would delete what the topic's own settings keep."""
    defaults = {"log.retention.bytes": 3000}
    return replace(
        plan,
        seconds=20,
        broker_settings={**plan.broker_settings, **defaults},
        topic_settings=_segments(plan) | _KEEPING,
        administrates=False,
        tuned=[],
        remote_coordination=False,
        compacted=False,
        retention=False,
        deletes=False,
        troubles=["damaged store"],
    )


def _clock_jumps(plan: Plan) -> Plan:
    return replace(
        plan,
        topic_settings=_segments(plan) | _KEEPING,
        tuned=[],
        retention=False,
        deletes=False,
        compacted=False,
        troubles=["clock jump", "kill"],
    )


def _full_at_the_end(plan: Plan) -> Plan:
    return replace(
        plan,
        seconds=15,
        administrates=True,
        remote_coordination=False,
        troubles=["killed on a full disk", "full disk"],
    )


ANY: Final = Circumstances("any", lambda plan: plan)
"""As they are drawn."""
CRASHES: Final = Circumstances("crashes", _crashes)
"""All ways to end, and small segments."""
LOSSES: Final = Circumstances("losses", _losses)
"""Power cuts that take what was not synced, from under readers that are away."""
RESTARTS: Final = Circumstances("restarts", _restarts)
"""Power cuts after starts that had nothing to recover."""
SYNCED: Final = Circumstances("synced", _synced)
"""Power cuts that must take nothing: ``flush.messages=1`` on a slow disk."""
KILLS: Final = Circumstances("kills", lambda plan: _in_flight(plan, ["kill", "cut", "cut"]))
"""Kills while producers wait for answers."""
FULL_DISKS: Final = Circumstances(
    "full disks", lambda plan: _in_flight(plan, ["full disk", "cut", "reset", "slow network"])
)
"""Appends that fail while later ones are under way."""
GROUPS: Final = Circumstances("groups", _groups)
"""Members that come and go."""
DAMAGES: Final = Circumstances("damages", _damages)
"""Damage to the coordination store."""
KEPT: Final = Circumstances("kept", _kept_for_ever)
"""Damage to the store of a broker that deletes whatever is not told to be kept."""
CLOCK_JUMPS: Final = Circumstances("clock jumps", _clock_jumps)
"""A clock that is years ahead, for less than a second."""
FULL_AT_THE_END: Final = Circumstances("full at the end", _full_at_the_end)
"""Kills on a full disk, on which the broker has to start."""

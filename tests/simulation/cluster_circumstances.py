"""What lives of clusters are about: plans that are bent so that a few seeds meet what matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.simulation.circumstances import Circumstances

from moldau.testing.simulation.lives.plan import Plan, Role

SECONDS: Final = 12.0
"""Of trouble: enough for a few elections."""


def _busy(plan: Plan, troubles: list[str], **changes: Any) -> Plan:
    """One partition and producers that keep batches in flight: whatever is lost is missed."""
    producer = {
        **plan.producers[0],
        "enable_idempotence": True,
        "acks": -1,
        "max_in_flight_requests_per_connection": 5,
        "linger_ms": 0,
        "batch_size": 500,
    }
    settings: dict[str, Any] = {
        "seconds": SECONDS,
        "partitions": 1,
        "producers": [producer, producer],
        "rate": 10,
        "delay": 0.2,
        "roles": [Role.READER],
        "administrates": False,
        "tuned": [],
        "deletes": False,
        "recreates": False,
        "elects": False,
        "troubles": troubles,
    }
    return replace(plan, **settings | changes)


def _unsynced(plan: Plan) -> dict[str, Any]:
    return {
        "synced": False,
        "broker_settings": {**plan.broker_settings, "log.flush.interval.messages": 2**63 - 1},
    }


def _segments(plan: Plan) -> dict[str, Any]:
    """Small ones, which are synced when they are full, with an index of every batch."""
    small = {"internal.segment.bytes": "2000", "index.interval.bytes": "1"}
    return {"topic_settings": {**plan.topic_settings, **small}}


def _kills(plan: Plan) -> Plan:
    return _busy(plan, ["kill", "kill several", "clean restart"])


def _cuts(plan: Plan) -> Plan:
    troubles = ["power cut", "power cut", "crash at an operation", "kill"]
    return _busy(plan, troubles, delay=0.5, seconds=20.0, **_unsynced(plan))


def _last_in_sync(plan: Plan) -> Plan:
    return _busy(plan, ["power cut of the last in sync"], seconds=20.0, **_unsynced(plan))


def _divergence(plan: Plan) -> Plan:
    """A producer that asks for no more than the leader's word fills logs that have to be cut."""
    careless = {**plan.producers[0], "enable_idempotence": False, "acks": 1, "batch_size": 500}
    busy = _busy(plan, ["two leaders", "power cut"], seconds=25.0, **_unsynced(plan))
    return replace(busy, producers=[*busy.producers, careless], **_segments(plan))


def _isolation(plan: Plan) -> Plan:
    troubles = ["isolate", "pause", "slow link", "kill"]
    return _busy(plan, troubles, delay=0.5, seconds=20.0)


def _store(plan: Plan) -> Plan:
    return _busy(
        plan,
        ["coordination killed", "session expired", "all sessions expired", "isolate", "pause"],
    )


def _controllers(plan: Plan) -> Plan:
    return _busy(
        plan,
        ["controller deposed", "controller deposed", "kill", "isolate", "session expired"],
        administrates=True,
        recreates=True,
        elects=True,
    )


def _earshot(plan: Plan) -> Plan:
    troubles = ["out of earshot", "reset between brokers"]
    return _busy(plan, troubles, seconds=20.0, administrates=True, recreates=True)


def _topics(plan: Plan) -> Plan:
    return _busy(
        plan,
        ["isolate", "pause", "kill", "coordination connection lost"],
        administrates=True,
        recreates=True,
        elects=True,
    )


def _groups(plan: Plan) -> Plan:
    troubles = ["kill", "kill several", "two leaders", "truce", "truce"]
    return _busy(plan, troubles, seconds=20.0, delay=0.02, roles=[Role.CLASSIC])


def _coordinators(plan: Plan) -> Plan:
    return _busy(plan, ["two leaders"], seconds=30.0, delay=0.02, roles=[Role.CLASSIC])


def _of_cluster(name: str, adjust: Callable[[Plan], Plan]) -> Circumstances:
    return Circumstances(name, adjust, cluster=True)


ANY_CLUSTER: Final = Circumstances("any cluster", lambda plan: plan, cluster=True)
"""As they are drawn."""
CLUSTER_KILLS: Final = _of_cluster("kills in a cluster", _kills)
"""Kills of one or all, while producers wait for answers."""
CLUSTER_CUTS: Final = _of_cluster("power cuts in a cluster", _cuts)
"""Power cuts of one at a time, where nothing is synced."""
LAST_IN_SYNC: Final = _of_cluster("last in sync", _last_in_sync)
"""Power cuts of a broker that the others have left alone."""
DIVERGENCE: Final = _of_cluster("divergence", _divergence)
"""Leaders that go on while another one leads, and have to cut their logs."""
ISOLATION: Final = _of_cluster("isolation", _isolation)
"""Brokers that do not reach others, or stand still, for a while."""
STORE: Final = _of_cluster("store", _store)
"""A coordination store that dies, forgets sessions, is out of reach."""
CONTROLLERS: Final = _of_cluster("controllers", _controllers)
"""Controllers that are replaced, and do not know it yet."""
EARSHOT: Final = _of_cluster("earshot", _earshot)
"""Brokers that do not hear the controller, and are not missed."""
CLUSTER_TOPICS: Final = _of_cluster("topics of a cluster", _topics)
"""Topics that come and go while brokers do not hear of it."""
CLUSTER_GROUPS: Final = _of_cluster("groups of a cluster", _groups)
"""Coordinators that change."""
COORDINATORS: Final = _of_cluster("coordinators", _coordinators)
"""Coordinators that go on while another one has taken over."""

"""Options of one group (KIP-848, KIP-932, KIP-1071), and the broker's options behind them.

Share and streams groups are not served; their options are kept and shown, as with Kafka, so that
tools which list or copy the settings of groups find what they expect. What a broker says for those
groups is accepted without effect (``ignored.txt``); here it is read all the same, because it
stands behind these options and bounds them.
"""

from __future__ import annotations

from typing import Final

from moldau.config.declare import boolean, following, integer, string
from moldau.config.option import Option, Options
from moldau.config.options.group_coordinator import GroupCoordinatorOptions
from moldau.config.validators import OffsetReset, OneOf


def _unserved(broker_name: str, default: int, doc: str, at_least: int) -> Option[int]:
    """An option of groups that are not served; the broker's has no place in the broker's table."""
    return following(integer(default, doc, name=broker_name, at_least=at_least), inert=True)


class GroupOptions(Options):
    """Settings of one group, given with `moldau config alter group` or any Kafka tool, also before
    the group exists. They take effect with each member's next heartbeat. A group without its own
    setting follows the broker setting named in the table. The broker's bounds
    (`group.consumer.min.session.timeout.ms` and so on) hold for what a group is given.
    """

    title = "Group settings"

    consumer_session_timeout_ms = following(
        GroupCoordinatorOptions.group_consumer_session_timeout_ms
    )
    consumer_heartbeat_interval_ms = following(
        GroupCoordinatorOptions.group_consumer_heartbeat_interval_ms
    )
    consumer_assignment_interval_ms = following(
        GroupCoordinatorOptions.group_consumer_assignment_interval_ms,
        "The time between two assignments of the group.",
    )
    share_session_timeout_ms = _unserved(
        "group.share.session.timeout.ms",
        45_000,
        "How long a member of a share group may be silent.",
        at_least=1,
    )
    share_heartbeat_interval_ms = _unserved(
        "group.share.heartbeat.interval.ms",
        5000,
        "How often members of a share group report.",
        at_least=1,
    )
    share_record_lock_duration_ms = _unserved(
        "group.share.record.lock.duration.ms",
        30_000,
        "How long a share group's member may hold a record.",
        at_least=1000,
    )
    share_delivery_count_limit = _unserved(
        "group.share.delivery.count.limit",
        5,
        "How often a record is delivered to a share group at most.",
        at_least=2,
    )
    share_partition_max_record_locks = _unserved(
        "group.share.partition.max.record.locks",
        2000,
        "How many records of a partition a share group's members may hold.",
        at_least=100,
    )
    share_auto_offset_reset = string(
        "latest",
        "Where a share group begins to read.",
        allowed=OffsetReset("earliest", "latest"),
        inert=True,
    )
    share_isolation_level = string(
        "read_uncommitted",
        "Whether a share group reads aborted transactions.",
        allowed=OneOf("read_committed", "read_uncommitted"),
        inert=True,
    )
    share_renew_acknowledge_enable = boolean(
        True, "Whether members of a share group may hold records for longer.", inert=True
    )
    share_assignment_interval_ms = _unserved(
        "group.share.assignment.interval.ms",
        1000,
        "The time between two assignments of a share group.",
        at_least=0,
    )
    streams_session_timeout_ms = _unserved(
        "group.streams.session.timeout.ms",
        45_000,
        "How long a member of a streams group may be silent.",
        at_least=1,
    )
    streams_heartbeat_interval_ms = _unserved(
        "group.streams.heartbeat.interval.ms",
        5000,
        "How often members of a streams group report.",
        at_least=1,
    )
    streams_num_standby_replicas = _unserved(
        "group.streams.num.standby.replicas",
        0,
        "How many standby replicas each task of a streams group has.",
        at_least=0,
    )
    streams_initial_rebalance_delay_ms = _unserved(
        "group.streams.initial.rebalance.delay.ms",
        3000,
        "How long an empty streams group waits for more members.",
        at_least=0,
    )
    streams_assignment_interval_ms = _unserved(
        "group.streams.assignment.interval.ms",
        1000,
        "The time between two assignments of a streams group.",
        at_least=0,
    )


Bounds = tuple[Option[int] | None, Option[int]]

_CONSUMER_BOUNDS: Final[dict[str, Bounds]] = {
    "consumer.heartbeat.interval.ms": (
        GroupCoordinatorOptions.group_consumer_min_heartbeat_interval_ms,
        GroupCoordinatorOptions.group_consumer_max_heartbeat_interval_ms,
    ),
    "consumer.session.timeout.ms": (
        GroupCoordinatorOptions.group_consumer_min_session_timeout_ms,
        GroupCoordinatorOptions.group_consumer_max_session_timeout_ms,
    ),
    "consumer.assignment.interval.ms": (
        GroupCoordinatorOptions.group_consumer_min_assignment_interval_ms,
        GroupCoordinatorOptions.group_consumer_max_assignment_interval_ms,
    ),
}

_UNSERVED_BOUNDS: Final[dict[str, tuple[int | None, int]]] = {
    "share.heartbeat.interval.ms": (5000, 15_000),
    "share.session.timeout.ms": (45_000, 60_000),
    "share.record.lock.duration.ms": (15_000, 60_000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4000),
    "share.assignment.interval.ms": (0, 15_000),
    "streams.heartbeat.interval.ms": (5000, 15_000),
    "streams.session.timeout.ms": (45_000, 60_000),
    "streams.num.standby.replicas": (None, 2),
    "streams.assignment.interval.ms": (0, 15_000),
}
"""Kafka's defaults of the lower and the upper bound."""


def _unserved_bound(name: str, bound: str, default: int) -> Option[int]:
    kind, _, rest = name.partition(".")
    return integer(default, "", name=f"group.{kind}.{bound}.{rest.removeprefix('num.')}")


BOUNDS: Final[dict[str, Bounds]] = _CONSUMER_BOUNDS | {
    name: (
        None if low is None else _unserved_bound(name, "min", low),
        _unserved_bound(name, "max", high),
    )
    for name, (low, high) in _UNSERVED_BOUNDS.items()
}
"""The broker's options that bound those of groups, low and high, in Kafka's order of checks."""

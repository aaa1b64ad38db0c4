"""Options of one group (KIP-848, KIP-932, KIP-1071), and the broker settings behind them.

Share and streams groups are not served; their options are kept and shown, as with Kafka, so that
tools which list or copy the settings of groups find what they expect.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.config.option import Area
from moldau.config.validators import OffsetReset, OneOf

PER_GROUP: Final = Area(
    "Group settings",
    "Settings of one group, given with `moldau config alter group` or any Kafka tool, also before "
    "the group exists. They take effect with each member's next heartbeat. A group without its own "
    "setting follows the broker setting named in the table. The broker's bounds "
    "(`group.consumer.min.session.timeout.ms` and so on) hold for what a group is given.",
)

CONSUMER_SESSION_TIMEOUT_MS = PER_GROUP.integer(
    "consumer.session.timeout.ms",
    45_000,
    "How long a member under the consumer protocol may be silent before it is removed.",
    at_least=1,
)
CONSUMER_HEARTBEAT_INTERVAL_MS = PER_GROUP.integer(
    "consumer.heartbeat.interval.ms",
    5000,
    "How often members under the consumer protocol are told to report.",
    at_least=1,
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = PER_GROUP.integer(
    "consumer.assignment.interval.ms",
    1000,
    "The time between two assignments of the group.",
    at_least=0,
)
PER_GROUP.integer(
    "share.session.timeout.ms",
    45_000,
    "How long a member of a share group may be silent.",
    at_least=1,
    inert=True,
)
PER_GROUP.integer(
    "share.heartbeat.interval.ms",
    5000,
    "How often members of a share group report.",
    at_least=1,
    inert=True,
)
PER_GROUP.integer(
    "share.record.lock.duration.ms",
    30_000,
    "How long a share group's member may hold a record.",
    at_least=1000,
    inert=True,
)
PER_GROUP.integer(
    "share.delivery.count.limit",
    5,
    "How often a record is delivered to a share group at most.",
    at_least=2,
    inert=True,
)
PER_GROUP.integer(
    "share.partition.max.record.locks",
    2000,
    "How many records of a partition a share group's members may hold.",
    at_least=100,
    inert=True,
)
PER_GROUP.string(
    "share.auto.offset.reset",
    "latest",
    "Where a share group begins to read.",
    allowed=OffsetReset(),
    inert=True,
)
PER_GROUP.string(
    "share.isolation.level",
    "read_uncommitted",
    "Whether a share group reads aborted transactions.",
    allowed=OneOf("read_committed", "read_uncommitted"),
    inert=True,
)
PER_GROUP.boolean(
    "share.renew.acknowledge.enable",
    True,
    "Whether members of a share group may hold records for longer.",
    inert=True,
)
PER_GROUP.integer(
    "share.assignment.interval.ms",
    1000,
    "The time between two assignments of a share group.",
    at_least=0,
    inert=True,
)
PER_GROUP.integer(
    "streams.session.timeout.ms",
    45_000,
    "How long a member of a streams group may be silent.",
    at_least=1,
    inert=True,
)
PER_GROUP.integer(
    "streams.heartbeat.interval.ms",
    5000,
    "How often members of a streams group report.",
    at_least=1,
    inert=True,
)
PER_GROUP.integer(
    "streams.num.standby.replicas",
    0,
    "How many standby replicas each task of a streams group has.",
    at_least=0,
    inert=True,
)
PER_GROUP.integer(
    "streams.initial.rebalance.delay.ms",
    3000,
    "How long an empty streams group waits for more members.",
    at_least=0,
    inert=True,
)
PER_GROUP.integer(
    "streams.assignment.interval.ms",
    1000,
    "The time between two assignments of a streams group.",
    at_least=0,
    inert=True,
)

_OWN: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)


def broker_setting(name: str) -> str | None:
    """The broker setting that holds for groups without this one, if there is any."""
    return None if name in _OWN else f"group.{name}"


class Limit(NamedTuple):
    """A broker setting that bounds a group setting, with Kafka's default of it."""

    name: str
    default: int


_BOUNDED: Final[dict[str, tuple[int | None, int]]] = {
    "consumer.heartbeat.interval.ms": (5000, 15_000),
    "consumer.session.timeout.ms": (45_000, 60_000),
    "consumer.assignment.interval.ms": (0, 15_000),
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


def _limit(name: str, bound: str, default: int | None) -> Limit | None:
    if default is None:
        return None
    kind, _, rest = name.partition(".")
    return Limit(f"group.{kind}.{bound}.{rest.removeprefix('num.')}", default)


LIMITS: Final[dict[str, tuple[Limit | None, Limit | None]]] = {
    name: (_limit(name, "min", low), _limit(name, "max", high))
    for name, (low, high) in _BOUNDED.items()
}
"""The lower and the upper bound that the broker sets to settings of groups, in Kafka's order of
checks."""

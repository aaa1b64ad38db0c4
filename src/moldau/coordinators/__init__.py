"""The runtime of coordinators: one shard of state for each partition of an internal topic that this
broker leads.

A coordinator (of groups, of transactions) is pure: it decides, and changes only by replaying
records. The runtime does the rest: it loads, appends, replays, keeps time, and sends replies and
starts effects when what they stand on is committed. ``moldau.outcome`` is what the two exchange.
"""

from moldau.coordinators.host import HostState, ShardHost
from moldau.coordinators.internal_topic import InternalTopic
from moldau.coordinators.requests import Answer, PendingRequest, gathered
from moldau.coordinators.runtime import (
    Coordinator,
    CoordinatorRuntime,
    CoordinatorSpec,
    RuntimePorts,
)
from moldau.coordinators.shard import Shard

__all__ = [
    "Answer",
    "Coordinator",
    "CoordinatorRuntime",
    "CoordinatorSpec",
    "HostState",
    "InternalTopic",
    "PendingRequest",
    "RuntimePorts",
    "Shard",
    "ShardHost",
    "gathered",
]

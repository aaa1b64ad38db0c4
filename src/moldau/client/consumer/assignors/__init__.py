"""Dividing partitions among the members of a classic group."""

from moldau.client.consumer.assignors.base import (
    Assignor,
    Layout,
    MemberSubscription,
    Plan,
    RebalanceProtocol,
)
from moldau.client.consumer.assignors.ceil import CeilAssignor
from moldau.client.consumer.assignors.choice import make_assignors, shared_protocol
from moldau.client.consumer.assignors.range import RangeAssignor
from moldau.client.consumer.assignors.roundrobin import RoundRobinAssignor
from moldau.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignor",
    "CeilAssignor",
    "CooperativeStickyAssignor",
    "Layout",
    "MemberSubscription",
    "Plan",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "make_assignors",
    "shared_protocol",
]

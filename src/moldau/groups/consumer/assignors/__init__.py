"""Server-side assignors of the consumer protocol, by the names that members ask for."""

from __future__ import annotations

from moldau.groups.consumer.assignors.range import RangeAssignor
from moldau.groups.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec, Partitions
from moldau.groups.consumer.assignors.uniform import UniformAssignor

ASSIGNORS: dict[str, Assignor] = {
    "uniform": UniformAssignor(),
    "range": RangeAssignor(),
}

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "GroupSpec",
    "MemberSpec",
    "Partitions",
    "RangeAssignor",
    "UniformAssignor",
]

"""From ``partition.assignment.strategy`` to assignors, by short names, Java's names or classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.client.consumer.assignors.base import Assignor, RebalanceProtocol
from moldau.client.consumer.assignors.ceil import CeilAssignor
from moldau.client.consumer.assignors.range import RangeAssignor
from moldau.client.consumer.assignors.roundrobin import RoundRobinAssignor
from moldau.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from moldau.client.plugins import load_plugin

_KNOWN: dict[str, type[Assignor]] = {
    kind.name: kind
    for kind in (
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        CooperativeStickyAssignor,
        CeilAssignor,
    )
}
_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def make_assignors(strategies: Iterable[str | type[Assignor] | Assignor]) -> list[Assignor]:
    """One instance of each strategy; ValueError for names that mean nothing or mean the same."""
    assignors = [_make(strategy) for strategy in strategies]
    names = [assignor.name for assignor in assignors]
    if not assignors:
        raise ValueError("partition.assignment.strategy names no assignor")
    if len(set(names)) < len(names):
        raise ValueError(f"partition.assignment.strategy names an assignor twice: {names}")
    shared_protocol(assignors)
    return assignors


def shared_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The least disturbing protocol that all of them support."""
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.protocols for assignor in assignors):
            return protocol
    names = ", ".join(assignor.name for assignor in assignors)
    raise ValueError(f"the assignors {names} share no rebalance protocol")


def _make(strategy: str | type[Assignor] | Assignor) -> Assignor:
    if isinstance(strategy, Assignor):
        return strategy
    if isinstance(strategy, type):
        return strategy()
    name = strategy.strip()
    if name.startswith(_JAVA_PACKAGE):
        name = _java_name(name.removeprefix(_JAVA_PACKAGE))
    kind = _KNOWN.get(name)
    if kind is None and ("." in name or ":" in name):
        assignor: Assignor = load_plugin(name, "partition.assignment.strategy")
        return assignor
    if kind is None:
        known = ", ".join(_KNOWN)
        raise ValueError(
            f"partition.assignment.strategy {strategy!r} is none of {known}; "
            "an assignor of your own is given as its class, or as package.module:Class"
        )
    return kind()


def _java_name(class_name: str) -> str:
    for name, kind in _KNOWN.items():
        if kind.__name__ == class_name:
            return name
    return class_name

"""A host as the network sees it: a name, whether it has power, and who listens and talks there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.testing.simulation.links import Link

if TYPE_CHECKING:
    from moldau.testing.simulation.acceptor import SimulatedAcceptor
    from moldau.testing.simulation.connection import SimulatedEnd

_PRUNE_AT: Final = 64


class Host:
    __slots__ = ("_ends", "_links", "_prune_at", "is_up", "listening", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True
        self.listening: dict[int, SimulatedAcceptor] = {}
        """By port."""
        self._links: dict[str, Link] = {}
        self._ends: dict[SimulatedEnd, None] = {}
        self._prune_at = _PRUNE_AT

    def way_to(self, target: Host) -> Link:
        link = self._links.get(target.name)
        if link is None:
            link = self._links[target.name] = Link(target)
        return link

    @property
    def ways(self) -> list[Link]:
        """Those that somebody has used."""
        return list(self._links.values())

    def add(self, end: SimulatedEnd) -> None:
        self._ends[end] = None
        if len(self._ends) >= self._prune_at:
            self._prune_at = max(_PRUNE_AT, 2 * len(self.ends()))

    def ends(self) -> list[SimulatedEnd]:
        """Returns the ends of connections that may still send something."""
        self._ends = {end: None for end in self._ends if not end.is_over}
        return list(self._ends)

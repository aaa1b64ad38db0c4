"""What lies between two hosts: delay, bandwidth, and whether anything gets through."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.testing.simulation.connection import SimulatedEnd
    from moldau.testing.simulation.host import Host


@dataclass(slots=True)
class Quality:
    """How the ways between hosts are, as a rule."""

    shortest: float = 0.0001
    longest: float = 0.001
    """Seconds that a packet takes."""
    slow: float = 0.01
    """How many of all packets take much longer, as after a retransmission."""
    slowest: float = 0.05
    split: float = 0.05
    """How many of all packets arrive in two pieces."""
    bytes_per_second: float = 100e6
    """What all connections from one host to another share."""
    window: int = 256 * 1024
    """Bytes that may be under way, or wait to be read, before a sender has to wait; as it is when
    a connection begins."""

    def delay(self, random: Random) -> float:
        if random.random() < self.slow:
            return self.longest + random.random() * (self.slowest - self.longest)
        return self.shortest + random.random() * (self.longest - self.shortest)


class Link:
    """The way from one host to another; the way back is another."""

    __slots__ = ("_is_cut", "_stalled", "_target", "detour", "free_at", "leads")

    def __init__(self, target: Host) -> None:
        self._target = target
        self._is_cut = False
        self._stalled: dict[SimulatedEnd, None] = {}
        self.leads = target.is_up
        """Whether what is sent arrives."""
        self.detour = 0.0
        """Seconds that everything takes longer than elsewhere."""
        self.free_at = 0.0
        """When the last byte that was given to it will have left."""

    def cut(self) -> None:
        self._is_cut = True
        self.look_again()

    def heal(self) -> None:
        self._is_cut = False
        self.detour = 0.0
        self.look_again()

    def look_again(self) -> None:
        """If it leads once more, what got lost is sent again."""
        self.leads = self._target.is_up and not self._is_cut
        if self.leads:
            stalled, self._stalled = self._stalled, {}
            for end in stalled:
                end.send_again()

    def stall(self, end: SimulatedEnd) -> None:
        """What this end sends does not get through for now."""
        self._stalled[end] = None

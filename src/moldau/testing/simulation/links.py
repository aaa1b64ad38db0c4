"""What lies between two hosts: delay, bandwidth, and whether anything gets through."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Quality:
    """How the ways between hosts are, as a rule."""

    shortest: float = 0.0001
    longest: float = 0.001
    """Seconds that a packet takes."""
    slow: float = 0.01
    """How many of all packets take much longer, as after a retransmission."""
    slowest: float = 0.05
    bytes_per_second: float = 100e6
    window: int = 256 * 1024
    """Bytes that may be under way, or wait to be read, before a sender has to wait."""

    def delay(self, random: Random) -> float:
        if random.random() < self.slow:
            return self.longest + random.random() * (self.slowest - self.longest)
        return self.shortest + random.random() * (self.longest - self.shortest)


class Links:
    """Which hosts reach which; each direction on its own."""

    def __init__(self) -> None:
        self._cut: dict[tuple[str, str], None] = {}

    def cut(self, source: str, target: str) -> None:
        self._cut[source, target] = None

    def heal(self, source: str, target: str) -> None:
        self._cut.pop((source, target), None)

    def heal_all(self) -> None:
        self._cut.clear()

    def leads(self, source: str, target: str) -> bool:
        return (source, target) not in self._cut

"""What happened in a world: a digest of all events, and, if asked for, the events themselves.

The digest is cheap and always kept: two runs of one seed that differ anywhere end with different
ones. The events are kept only where somebody is going to read them, so they are not put into words
before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32


class Event(NamedTuple):
    """Something that happened, at a time, on a node."""

    time: float
    node: str
    kind: str
    details: tuple[Any, ...]

    def __str__(self) -> str:
        words = " ".join(str(detail) for detail in self.details)
        return f"{self.time:12.6f}  {self.node:<12} {self.kind:<12} {words}"


class Recorder:
    def __init__(self, now: Callable[[], float], *, keep: bool = False) -> None:
        self._now = now
        self._digest = 0
        self.count = 0
        self.events: list[Event] = []
        self.keeps = keep
        """Whether events are kept, so that whoever has more to tell may take the trouble."""

    def record(self, node: str, kind: str, *details: Any) -> None:
        """Note an event; its details must be the same in every run of the seed."""
        now = self._now()
        self.count += 1
        self._digest = crc32(f"{now!r} {node} {kind} {details!r}".encode(), self._digest)
        if self.keeps:
            self.events.append(Event(now, node, kind, details))

    def tell(self, node: str, kind: str, *details: Any) -> None:
        """Note something for the reader only, such as a log line."""
        if self.keeps:
            self.events.append(Event(self._now(), node, kind, details))

    @property
    def digest(self) -> str:
        """Of all events so far."""
        return f"{self._digest:08x}-{self.count}"

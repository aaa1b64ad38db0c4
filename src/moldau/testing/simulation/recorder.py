"""What happened in a world: a digest of all events, and, if asked for, the events themselves.

The digest is cheap and always kept: two runs of one seed that differ anywhere end with different
ones. The events are kept only where somebody is going to read them, so they are not put into words
before that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

_DIGEST_AT: Final = 1_000
"""So many events go into the digest at once: it costs a fraction of one at a time."""


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
        self._digest = blake2b(digest_size=8)
        self._undigested: deque[tuple[float, str, str, tuple[Any, ...]]] = deque()
        self.events: list[Event] = []
        self.keeps = keep
        """Whether events are kept, so that whoever has more to tell may take the trouble."""

    def record(self, node: str, kind: str, *details: Any) -> None:
        """Note an event; its details must be the same in every run of the seed."""
        undigested = self._undigested
        undigested.append((self._now(), node, kind, details))
        if len(undigested) == _DIGEST_AT:
            self._take_in()
        if self.keeps:
            self.tell(node, kind, *details)

    def tell(self, node: str, kind: str, *details: Any) -> None:
        """Note something for the reader only, such as a log line."""
        if self.keeps:
            self.events.append(Event(self._now(), node, kind, details))

    def close(self) -> None:
        """Nothing happens any more."""
        self._take_in()
        self._undigested = deque(maxlen=0)
        self.keeps = False

    @property
    def digest(self) -> str:
        """Of all events so far."""
        self._take_in()
        return self._digest.hexdigest()

    def _take_in(self) -> None:
        self._digest.update("".join(map(repr, self._undigested)).encode())
        self._undigested.clear()

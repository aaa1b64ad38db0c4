"""Sessions that a store keeps for clients elsewhere: pure, time is handed in.

What has to outlive the store's process (``Session``) is journaled with the tree. Who was heard when
(``SessionTable``) is not: after a restart nobody can have been heard, so everybody counts as heard
at that moment and has one whole timeout to come back. ZooKeeper does the same when it elects a
leader; without it, a crash of the store would take every broker's registration with it.
"""

from __future__ import annotations

from typing import Final

import msgspec

TOLERANCE: Final = 0.5
"""Seconds by which a timer may be late before its owner must have been away."""


class Session(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A session as the journal and the snapshot keep it."""

    id: int
    password: bytes
    """Whoever has it may take the session to another connection."""
    timeout_ms: int


class _Heard:
    __slots__ = ("at", "timeout")

    def __init__(self, at: float, timeout: float) -> None:
        self.at = at
        self.timeout = timeout


class SessionTable:
    """When each session was last heard, in seconds of a clock that never runs backwards."""

    def __init__(self) -> None:
        self._heard: dict[int, _Heard] = {}

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._heard

    def __len__(self) -> int:
        return len(self._heard)

    def add(self, session: Session, now: float) -> None:
        self._heard[session.id] = _Heard(now, session.timeout_ms / 1000)

    def remove(self, session_id: int) -> None:
        self._heard.pop(session_id, None)

    def hear(self, session_id: int, now: float) -> None:
        heard = self._heard.get(session_id)
        if heard is not None:
            heard.at = max(heard.at, now)

    def next_end(self) -> float | None:
        """Returns when the first session ends if nothing more is heard; None if there is none."""
        return min((heard.at + heard.timeout for heard in self._heard.values()), default=None)

    def silent(self, now: float) -> list[int]:
        """Returns the sessions that were not heard for their timeout, in the order of their ids."""
        return sorted(
            session_id
            for session_id, heard in self._heard.items()
            if heard.at + heard.timeout <= now
        )

    def was_away(self, seconds: float) -> None:
        """The store itself did not run for a while: nobody's silence in that time counts."""
        for heard in self._heard.values():
            heard.at += seconds

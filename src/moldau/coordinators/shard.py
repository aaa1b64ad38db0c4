"""What the runtime needs of a coordinator: the state of one partition of its internal topic."""

from __future__ import annotations

from typing import Protocol

from moldau.outcome import Outcome


class Shard(Protocol):
    """First ``replay`` of everything that is stored, then ``on_loaded``, then requests, which are
    methods of the shard's own, and deadlines. Each returns what is to be done; nothing else changes
    the shard but ``replay``.
    """

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the state up to one record of the log."""
        ...

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """The same of a record in a producer's transaction, which is not decided."""
        ...

    def replay_end(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction is over: what was pending of it counts now, or is gone."""
        ...

    def on_loaded(self, now_ms: int) -> Outcome:
        """The whole log is replayed. Effects that were decided and are not noted as done are due
        again.
        """
        ...

    def next_deadline(self) -> int | None:
        """Returns when ``on_time`` wants to be called, in wall-clock milliseconds."""
        ...

    def on_time(self, now_ms: int) -> Outcome: ...

    def clock_was_set(self, by_ms: int) -> None:
        """Somebody has set the wall clock: deadlines move with it."""
        ...

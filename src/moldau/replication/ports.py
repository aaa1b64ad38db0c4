"""What partitions are handed, and whom they tell: waiting requests, and what leaders share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

DEFAULT_MAX_LAG_MS: Final = 30_000


class FetchWaiter(Protocol):
    """A parked fetch that wants to hear of progress on a partition."""

    def progress(self, size: int) -> None:
        """About ``size`` more bytes became readable."""
        ...

    def disturbed(self) -> None:
        """Leadership moved or the partition went away: look again now."""
        ...


class AppendWaiter(Protocol):
    """A parked append that waits for the high watermark."""

    def settled(self, partition: Partition) -> None:
        """The high watermark has reached the append, or this broker leads no more."""
        ...


class DeletionWaiter(Protocol):
    """A parked deletion of records that waits for the followers to do the same."""

    def deleted(self, partition: Partition) -> None:
        """The low watermark has reached what was deleted, or this broker leads no more."""
        ...


def _no_time() -> int:
    return 0


def _nobody_asks(_partition: Partition) -> None: ...


class LeaderPorts:
    """What the leaders of this broker's partitions share: the time, who is there, whom to ask."""

    __slots__ = ("alive", "ask", "max_lag_ms", "now_ms")

    def __init__(
        self, now_ms: Callable[[], int] = _no_time, max_lag_ms: int = DEFAULT_MAX_LAG_MS
    ) -> None:
        self.now_ms = now_ms
        """Milliseconds that never run backwards."""
        self.max_lag_ms = max_lag_ms
        """``replica.lag.time.max.ms``."""
        self.alive: dict[int, int] = {}
        """The brokers that are registered, and their epochs."""
        self.ask: Callable[[Partition], None] = _nobody_asks
        """Called with a partition that wants other in-sync replicas: its ``isr_change``."""

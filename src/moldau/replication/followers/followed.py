"""One partition that is being followed: from whom, and what keeps it from being fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.fetch import PartitionFetch
from moldau.machine.clock import Clock, Timer
from moldau.model import TopicPartition
from moldau.replication.partition import Partition

FIRST_PAUSE_S: Final = 0.025
"""After the first failure: most are about an election of which one side has not heard yet."""


class FollowedPartition:
    """It is asked for, or it waits, or work on its log is under way. One leader epoch long."""

    __slots__ = (
        "_failures",
        "_timer",
        "first_round",
        "is_cutting",
        "is_released",
        "leader_epoch",
        "partition",
        "problem",
        "work",
    )

    def __init__(self, partition: Partition, first_round: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.first_round = first_round
        """Answers to fetches before this one are not about it, but about an earlier epoch."""
        self.problem: ErrorCode | None = None
        """What the last fetch of it failed with."""
        self.is_released = False
        self.is_cutting = False
        """Its log is being cut: its role must not change."""
        self.work: asyncio.Task[None] | None = None
        self._failures = 0
        self._timer: Timer | None = None

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None or self.work is not None

    def is_wanted(self) -> bool:
        """Returns whether its leader is still the one of this epoch."""
        partition = self.partition
        return (
            not self.is_released
            and partition.follows >= 0
            and partition.leader_epoch == self.leader_epoch
        )

    def next_fetch(self, max_bytes: int) -> PartitionFetch:
        """Returns what to ask for: what comes after all that there is."""
        partition = self.partition
        log = partition.log
        return PartitionFetch(
            partition.topic_id,
            log.log_end_offset,
            max_bytes,
            self.leader_epoch,
            log.leader_epochs.latest_epoch,
            log.log_start_offset,
        )

    def succeeded(self) -> None:
        self._failures = 0
        self.problem = None

    def put_off(self, clock: Clock, longest_s: float, again: Callable[[], None]) -> float:
        """Wait a little, longer with each failure, then call ``again``. Returns how long."""
        pause: float = min(FIRST_PAUSE_S * 2 ** min(self._failures, 16), longest_s)
        self._failures += 1

        def fire() -> None:
            self._timer = None
            again()

        self.cancel_pause()
        self._timer = clock.call_later(pause, fire)
        return pause

    def cancel_pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that takes longer; meanwhile it is not fetched."""
        self.work = task = asyncio.ensure_future(work)
        return task

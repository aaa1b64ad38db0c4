"""Requests that wait without holding anything up: long-poll fetches and ``acks=all`` appends.

Nothing polls. A parked request registers with its partitions, is told of progress, and has one
timer for its deadline. Completion runs in a later turn of the loop, so that an append never pays
for its readers and a burst of appends wakes each reader once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.errors import ErrorCode
from moldau.machine.clock import Clock, Timer
from moldau.replication.partition import Partition


class ParkedFetch:
    """A fetch that found fewer than ``min_bytes``.

    ``attempt`` reads again and answers if enough is there (or if ``final`` says that time is up);
    it returns the number of bytes it saw when it did not answer.
    """

    __slots__ = (
        "_as_follower",
        "_attempt",
        "_available",
        "_clock",
        "_min_bytes",
        "_partitions",
        "_timer",
        "_turn",
    )

    def __init__(
        self,
        clock: Clock,
        partitions: Sequence[Partition],
        *,
        min_bytes: int,
        available: int,
        max_wait_ms: int,
        attempt: Callable[[bool], int | None],
        as_follower: bool = False,
    ) -> None:
        self._clock = clock
        self._partitions: list[Partition] | None = []
        """None when it has ended."""
        self._min_bytes = min_bytes
        self._available = available
        self._attempt = attempt
        self._as_follower = as_follower
        self._turn: Timer | None = None
        self._timer = clock.call_later(max_wait_ms / 1000, self._time_is_up)
        for partition in partitions:
            self.watch(partition)

    def watch(self, partition: Partition) -> None:
        """Be told of the progress of this one, too."""
        if self._partitions is not None:
            self._partitions.append(partition)
            partition.park_fetch(self, as_follower=self._as_follower)

    def progress(self, size: int) -> None:
        self._available += size
        if self._partitions is None:
            return  # it has ended
        if self._available >= self._min_bytes and self._turn is None:
            self._turn = self._clock.call_later(0, self._look_again)

    def disturbed(self) -> None:
        if self._partitions is None:
            return
        if self._turn is not None:
            self._turn.cancel()
        self._turn = self._clock.call_later(0, self._time_is_up)

    def cancel(self) -> None:
        """The client is gone: forget everything."""
        self._timer.cancel()
        if self._turn is not None:
            self._turn.cancel()
        partitions, self._partitions = self._partitions, None
        for partition in partitions or ():
            partition.leave_fetch(self)

    def _look_again(self) -> None:
        self._turn = None
        seen = self._attempt(False)
        if seen is None:
            self.cancel()
        else:
            self._available = seen

    def _time_is_up(self) -> None:
        self.cancel()
        self._attempt(True)


class ParkedProduce:
    """An ``acks=all`` append that waits for the high watermark of its partitions.

    ``answer`` is called once, with the error of each partition in the order in which they were
    given. What became of a partition is decided when it is settled: a broker that loses and
    regains leadership meanwhile cannot vouch for the append.
    """

    __slots__ = ("_answer", "_outcomes", "_required", "_timer", "_waiting")

    def __init__(
        self,
        clock: Clock,
        required: Sequence[tuple[Partition, int]],
        *,
        timeout_ms: int,
        answer: Callable[[list[ErrorCode]], None],
    ) -> None:
        self._answer: Callable[[list[ErrorCode]], None] | None = answer
        self._required = required
        self._outcomes: dict[Partition, ErrorCode] = {}
        self._waiting: dict[Partition, int] = {}
        for partition, end_offset in required:
            self._waiting[partition] = max(end_offset, self._waiting.get(partition, 0))
        self._timer = clock.call_later(max(timeout_ms, 0) / 1000, self._finish)
        for partition, end_offset in tuple(self._waiting.items()):
            partition.park_append(self, end_offset)

    def settled(self, partition: Partition) -> None:
        end_offset = self._waiting.pop(partition, None)
        if end_offset is None:
            return
        self._outcomes[partition] = commit_error(partition, end_offset)
        if not self._waiting:
            self._finish()

    def cancel(self) -> None:
        """The client is gone: forget everything. What was appended stays appended."""
        self._answer = None
        self._timer.cancel()
        for partition in self._waiting:
            partition.leave_append(self)
        self._waiting = {}
        self._required = ()

    def _finish(self) -> None:
        answer, required, outcomes = self._answer, self._required, self._outcomes
        for partition, end_offset in self._waiting.items():
            outcomes[partition] = commit_error(partition, end_offset)
        self.cancel()
        if answer is not None:
            answer([outcomes[partition] for partition, _ in required])


def commit_error(partition: Partition, end_offset: int) -> ErrorCode:
    """Returns what became of an append that ends at ``end_offset``: REQUEST_TIMED_OUT as long as it
    may still be committed.
    """
    if not partition.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.high_watermark < end_offset:
        failed = partition.log.failure is not None
        return ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.REQUEST_TIMED_OUT
    if partition.is_under_min_isr:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE

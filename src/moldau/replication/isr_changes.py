"""Asking the controller for other in-sync replicas, for all partitions that this broker leads.

Partitions say that they want something (``LeaderPorts.ask``); what they want is their
``isr_change``. One request is under way at a time and carries all that is wanted when it leaves. A
request whose fate is unknown is made again, word for word, until the controller has answered or has
said something newer by itself: the partitions know what to do with either
(``replication/isr.py``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from random import Random
from typing import Any, Final, TypeAlias

from moldau.controller import AlterPartition, AlterPartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Clock, Timer
from moldau.replication.isr import IsrChange
from moldau.replication.partition import Partition

log = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST: Final = 1000
PARTITIONS_PER_TURN: Final = 500
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0

AlterPartitions: TypeAlias = Callable[
    [Sequence[AlterPartition]], Awaitable[Sequence[AlterPartitionResult]]
]


class IsrChanges:
    """What the leaders of this broker's partitions want of the controller."""

    def __init__(
        self,
        alter_partitions: AlterPartitions,
        partitions: Callable[[], Iterable[Partition]],
        *,
        max_lag_ms: int,
        clock: Clock,
        random: Random,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """``partitions`` are those with a replica here."""
        self._alter_partitions = alter_partitions
        self._partitions = partitions
        self._interval_s = max_lag_ms / 2000
        self._clock = clock
        self._spawn = spawn
        self._backoff = Backoff(clock, random, FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._wanting: dict[Partition, None] = {}
        self._is_asking = False
        self._is_reviewing = False
        self._timer: Timer | None = None
        self.expands = 0
        """How often replicas joined; below, how often some left, and how often that failed."""
        self.shrinks = 0
        self.failures = 0

    def start(self) -> None:
        """Look for followers that lag, now and then."""
        self._timer = self._clock.call_later(self._interval_s, self._time_to_review)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Looking for what to change ------------------------------------------------------------------

    def review(self) -> None:
        """Look at all partitions soon: somebody has come or gone."""
        if not self._is_reviewing:
            self._is_reviewing = True
            self._spawn(self._review())

    def _time_to_review(self) -> None:
        self.start()
        self.review()

    async def _review(self) -> None:
        self._is_reviewing = False  # whoever comes or goes from here on asks for another
        led = [one for one in self._partitions() if one.has_followers]
        for start in range(0, len(led), PARTITIONS_PER_TURN):
            for partition in led[start : start + PARTITIONS_PER_TURN]:
                partition.review_replicas()
                if partition.isr_change is not None:
                    # Nothing stays pending because somebody forgot to ask.
                    self.ask(partition)
            await asyncio.sleep(0)

    # Asking --------------------------------------------------------------------------------------

    def ask(self, partition: Partition) -> None:
        """Ask for what this partition wants, with the others that want something."""
        self._wanting[partition] = None
        if not self._is_asking:
            self._is_asking = True
            self._spawn(self._ask_all())

    async def _ask_all(self) -> None:
        try:
            while self._wanting:
                asked: list[tuple[Partition, IsrChange]] = []
                for partition in tuple(islice(self._wanting, PARTITIONS_PER_REQUEST)):
                    del self._wanting[partition]
                    change = partition.isr_change
                    if change is not None:
                        asked.append((partition, change))
                if not asked:
                    continue
                if await self._ask(asked):
                    self._backoff.reset()
                else:
                    await self._backoff.wait()
        finally:
            self._is_asking = False

    async def _ask(self, asked: Sequence[tuple[Partition, IsrChange]]) -> bool:
        """Returns whether everything was answered; what was not is wanted again."""
        try:
            answers = await self._alter_partitions([_request(*one) for one in asked])
        except Exception as error:
            if not isinstance(error, KafkaError):
                log.exception("asking for other in-sync replicas failed")
            log.info("in-sync replicas of %d partitions are not changed: %s", len(asked), error)
            self.failures += len(asked)
            self._wanting.update({partition: None for partition, _ in asked})
            return False
        by_partition = {(answer.topic, answer.partition): answer for answer in answers}
        all_answered = True
        for partition, change in asked:
            answer = by_partition.get(partition.topic_partition)
            if answer is not None and answer.error is ErrorCode.NONE:
                self._changed(partition, change, answer)
                continue
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error
            self.failures += 1
            log.info(
                "in-sync replicas of %s do not become %s: %s",
                partition.topic_partition,
                change.isr,
                code.name,
            )
            if partition.isr_refused(change, code):
                self._wanting[partition] = None
                all_answered = False
        return all_answered

    def _changed(
        self, partition: Partition, change: IsrChange, answer: AlterPartitionResult
    ) -> None:
        # Whether or not the leader has heard of the new state before the answer.
        partition.isr_answered(change, answer)
        if change.added:
            self.expands += 1
        else:
            self.shrinks += 1
        log.info("in-sync replicas of %s are %s", partition.topic_partition, partition.isr)


def _request(partition: Partition, change: IsrChange) -> AlterPartition:
    topic, index = partition.topic_partition
    return AlterPartition(
        topic=topic,
        topic_id=partition.topic_id,
        partition=index,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        new_isr=change.isr,
        new_isr_epochs=change.isr_epochs,
    )

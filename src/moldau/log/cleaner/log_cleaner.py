"""The broker's side of compaction: choose a log, have it cleaned, swap the result in, note it.

Runs on the event loop and never blocks it: processes clean, threads rename. What a cleaner has
written becomes part of a log only here, and only while nothing else has happened to the log: before
a log is truncated, moved or deleted, its cleaning is aborted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final, NamedTuple

from moldau.config.values.broker import BrokerConfig
from moldau.errors import KafkaError
from moldau.log.cleaner.checkpoint import CleanerCheckpoints
from moldau.log.cleaner.cleanable import Cleanable, dirtiest, find_cleanable
from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanStats, GroupCleaned
from moldau.log.cleaner.process import CleanerDiedError, CleanerProcess
from moldau.log.cleaner.statistics import CleanerStatistics
from moldau.log.cleaner.swap import remove_cleaned, swap_in
from moldau.log.cleaner.tasks import make_task
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import CorruptIndexError
from moldau.log.partition.log import PartitionLog
from moldau.log.segment.segment import Segment
from moldau.log.upkeep.background import Background
from moldau.machine import Machine
from moldau.machine.clock_watch import ClockWatch
from moldau.machine.errors import is_passing
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

_MAX_DOUBLINGS: Final = 4
"""Four minutes by default: a disk that is full may get room at any time."""
_SHORTEST_BACKOFF_MS: Final = 1


class Uncleanable(NamedTuple):
    """A partition that is not cleaned any more until the broker starts again."""

    reason: str
    log: PartitionLog


class _Job:
    """One log being cleaned."""

    __slots__ = ("aborted", "log", "process", "swapping")

    def __init__(self, log: PartitionLog, process: CleanerProcess) -> None:
        self.log = log
        self.process = process
        self.aborted = False
        self.swapping = asyncio.Lock()


class LogCleaner:
    def __init__(
        self,
        machine: Machine,
        config: BrokerConfig,
        background: Background,
        logs: Mapping[TopicPartition, PartitionLog],
        *,
        make_durable: Callable[[PartitionLog, int], Awaitable[None]],
        fail_directory: Callable[[str, str], None],
    ) -> None:
        self._machine = machine
        self._disk = machine.disk
        self._clock = machine.clock
        self._run_in_thread = machine.threads.run
        self._background = background
        self._logs = logs
        self._make_durable = make_durable
        self._processes: list[CleanerProcess] = []
        self._jobs: dict[TopicPartition, _Job] = {}
        self._paused: Counter[TopicPartition] = Counter()
        self._failures: Counter[TopicPartition] = Counter()
        self._not_before: dict[TopicPartition, float] = {}
        self._closed = False
        self._watch = ClockWatch(machine.clock)
        self.config = config
        self.checkpoints = CleanerCheckpoints(machine.disk, machine.threads.run, fail_directory)
        self.uncleanable: dict[TopicPartition, Uncleanable] = {}
        """Partitions set aside because their own data is damaged."""
        self.statistics = CleanerStatistics(machine.clock.now_ms())
        self.high_watermark: Callable[[TopicPartition], int | None] = lambda _: None
        """How far a partition is committed; None if it is not served (yet). Replication sets it."""

    async def start(self, partitions: Mapping[str, list[TopicPartition]]) -> None:
        """Read where the last cleanings ended, by log directory, and begin to clean."""
        for directory, there in partitions.items():
            await self.checkpoints.load(directory, there)
        if self.config.log_cleaner_enable:
            self._schedule()

    def _schedule(self) -> None:
        # Not the fixed rhythm of ``Background.every``: the back-off may change at any time.
        backoff_ms = max(self.config.log_cleaner_backoff_ms, _SHORTEST_BACKOFF_MS)
        self._background.later(backoff_ms / 1000, self._run)

    async def _run(self) -> None:
        try:
            # Tombstones go by the clock: see RetentionCheck.
            if self._watch.jump_ms() <= 0:
                await self.clean_all()
        finally:
            self._schedule()

    @property
    def uncleanable_bytes(self) -> int:
        return sum(uncleanable.log.size for uncleanable in self.uncleanable.values())

    # Cleaning ----------------------------------------------------------------------------------

    async def clean_all(self) -> None:
        """Clean whatever is due, with as many cleaners as the settings say."""
        threads = max(self.config.log_cleaner_threads, 1)
        while len(self._processes) < threads:
            self._processes.append(CleanerProcess(self._machine.processes))
        processes = self._processes[:threads]
        try:
            await asyncio.gather(*(self._clean_with(process, threads) for process in processes))
        finally:
            for process in self._processes:
                await process.stop()

    async def _clean_with(self, process: CleanerProcess, threads: int) -> None:
        while not self._closed and (cleanable := self._choose()) is not None:
            await self._clean(cleanable, process, threads)

    def _choose(self) -> Cleanable | None:
        for partition in [gone for gone in self.uncleanable if gone not in self._logs]:
            del self.uncleanable[partition]
        candidates = []
        for partition, log in self._logs.items():
            if not log.config.compact or not self._may_clean(partition, log):
                continue
            cleanable = self._look_at(partition, log)
            if cleanable is not None:
                candidates.append(cleanable)
        self.statistics.looked(candidates, self._clock.now_ms())
        return dirtiest(candidates)

    def _may_clean(self, partition: TopicPartition, log: PartitionLog) -> bool:
        return (
            log.failure is None
            and partition not in self._jobs
            and partition not in self._paused
            and partition not in self.uncleanable
            and self._clock.monotonic() >= self._not_before.get(partition, 0.0)
        )

    def _look_at(self, partition: TopicPartition, log: PartitionLog) -> Cleanable | None:
        high_watermark = self.high_watermark(partition)
        if high_watermark is None:
            return None
        checkpoint = self.checkpoints.get(_home(log), partition)
        try:
            return find_cleanable(log, checkpoint, high_watermark, self._clock.now_ms())
        except (CorruptIndexError, KafkaError, OSError) as error:
            self._put_off(partition, str(error))
            return None

    async def _clean(self, cleanable: Cleanable, process: CleanerProcess, threads: int) -> None:
        log = cleanable.log
        partition = log.topic_partition
        job = self._jobs[partition] = _Job(log, process)
        started = self._clock.monotonic()
        try:
            # What is swapped in leaves gaps in the offsets, and recovery takes them for lost data
            # unless they lie before the recovery point.
            await self._make_durable(log, cleanable.first_uncleanable_offset)
            done = await self._have_it_cleaned(job, cleanable, threads)
            if done is not None and not job.aborted:
                self._failures.pop(partition, None)
                self._not_before.pop(partition, None)
                await self.checkpoints.put(_home(log), partition, done.end_offset)
                seconds = self._clock.monotonic() - started
                self.statistics.cleaned(process, seconds, done.stats)
                _log_done(cleanable, done, seconds)
        except (CorruptIndexError, KafkaError, OSError, CleanerDiedError) as error:
            if not job.aborted:
                if isinstance(error, CleanerDiedError):
                    self.statistics.died(process)
                self._put_off(partition, str(error))
        finally:
            del self._jobs[partition]
            await self._tidy_up(log)

    async def _have_it_cleaned(
        self, job: _Job, cleanable: Cleanable, threads: int
    ) -> CleanDone | None:
        task = make_task(cleanable, self.config, threads, self._clock.now_ms())
        async with aclosing(job.process.run(task)) as reports:
            async for report in reports:
                if isinstance(report, CleanDone):
                    return report
                if isinstance(report, CleanFailed):
                    if not job.aborted:
                        self._failed(job.log, report)
                    return None
                async with job.swapping:
                    if not await self._swap(job, report):
                        break
        job.process.kill()
        return None

    async def _swap(self, job: _Job, group: GroupCleaned) -> bool:
        """Put a cleaned segment in its place, unless the log has gone its own ways meanwhile."""
        log = job.log
        replaced = set(group.replaces)
        old = [segment for segment in log.segments if segment.base_offset in replaced]
        if job.aborted or log.failure is not None or len(old) != len(replaced):
            return False
        new = Segment.with_config(
            self._disk,
            log.directory,
            group.base_offset,
            log.config,
            created_ms=old[-1].created_ms,
            size=group.size,
        )
        log.closed_segments.begin_replacing(old)
        try:
            deleted = await self._run_in_thread(swap_in, self._disk, log.directory, group)
        except OSError as error:
            if self._logs.get(log.topic_partition) is not log:
                return False  # it was deleted: its directory has another name
            if is_passing(error):
                log.closed_segments.keep()
                raise
            # Nobody knows under which names the files are: the next start will sort them.
            raise log.health.fatal_error("swap in a cleaned segment", error) from error
        log.closed_segments.replace(old, new, deleted)
        return True

    def _failed(self, log: PartitionLog, report: CleanFailed) -> None:
        partition = log.topic_partition
        if report.corrupt:
            self.uncleanable[partition] = Uncleanable(report.reason, log)
            _log.error(
                "%s is uncleanable and will grow until the broker starts again: %s "
                "(uncleanable-partitions-count=%d, uncleanable-bytes=%d)",
                partition,
                report.reason,
                len(self.uncleanable),
                self.uncleanable_bytes,
            )
        else:
            self._put_off(partition, report.reason)

    def _put_off(self, partition: TopicPartition, reason: str) -> None:
        """Try again later, each time later: others should have their turn."""
        doublings = min(self._failures[partition], _MAX_DOUBLINGS)
        self._failures[partition] += 1
        wait_s = self.config.log_cleaner_backoff_ms / 1000 * 2**doublings
        self._not_before[partition] = self._clock.monotonic() + wait_s
        _log.warning("%s was not cleaned, next try in %g s: %s", partition, wait_s, reason)

    async def _tidy_up(self, log: PartitionLog) -> None:
        if log.failure is None:
            with suppress(OSError):  # the next start removes them
                await self._run_in_thread(remove_cleaned, self._disk, log.directory)

    # What else happens to logs -----------------------------------------------------------------

    async def abort_and_pause(self, partition: TopicPartition) -> None:
        """Return once the log is not being cleaned and will not be, until ``resume``."""
        self._paused[partition] += 1
        job = self.abort(partition)
        if job is not None:
            async with job.swapping:
                pass  # a swap that had begun is over

    def abort(self, partition: TopicPartition) -> _Job | None:
        job = self._jobs.get(partition)
        if job is not None:
            job.aborted = True
            job.process.kill()
        return job

    def resume(self, partition: TopicPartition) -> None:
        self._paused[partition] -= 1
        if self._paused[partition] <= 0:
            del self._paused[partition]

    @asynccontextmanager
    async def paused(self, log: PartitionLog) -> AsyncIterator[None]:
        """While a log is truncated; what is cut off will be dirty when it comes again."""
        partition = log.topic_partition
        await self.abort_and_pause(partition)
        try:
            yield
            await self.checkpoints.truncate(_home(log), partition, log.log_end_offset)
        finally:
            self.resume(partition)

    def forget(self, log: PartitionLog, directory: LogDirectory) -> None:
        """The log is going away from this directory."""
        partition = log.topic_partition
        self.abort(partition)
        self.uncleanable.pop(partition, None)
        self._failures.pop(partition, None)
        self._not_before.pop(partition, None)
        if self.checkpoints.get(directory.path, partition) is not None:
            self._background.spawn(self.checkpoints.remove(directory.path, partition))

    def moved(self, log: PartitionLog, directory: str) -> None:
        """Another log directory will have the partition: it is as clean there."""
        offset = self.checkpoints.get(_home(log), log.topic_partition)
        if offset is not None:
            self._background.spawn(self.checkpoints.put(directory, log.topic_partition, offset))

    async def close(self) -> None:
        """Nothing is cleaned any more; swaps that had begun are finished."""
        self._closed = True
        for partition in tuple(self._jobs):
            await self.abort_and_pause(partition)


def _home(log: PartitionLog) -> str:
    return log.directory.rpartition("/")[0]


def _log_done(cleanable: Cleanable, done: CleanDone, seconds: float) -> None:
    stats: CleanStats = done.stats
    _log.info(
        "%s cleaned from %d to %d in %.1f s: %d keys (%.0f %% of the buffer), "
        "%d of %d records and %d of %d bytes kept",
        cleanable.log.topic_partition,
        cleanable.first_dirty_offset,
        done.end_offset,
        seconds,
        stats.keys,
        100 * stats.buffer_utilization,
        stats.records_written,
        stats.records_read,
        stats.bytes_written,
        stats.bytes_read,
    )

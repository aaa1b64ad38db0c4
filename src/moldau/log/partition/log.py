"""The log of one partition: append, read, roll, flush, truncate.

Synchronous and single-threaded: it is called from the event loop and writes to the page cache;
syncing is left to worker threads (see ``durability``).

``PartitionLog`` is the one to use. What it is made of:

- ``offsets``: start, recovery point, end; its own fields, which the parts share
- ``segments``: the list of segments, with ``tail``, the places of the last batches
- ``appending``, ``rolling``: the way in (``validation`` says what may come in)
- ``producer_state`` and ``producer_snapshots``, ``leader_epochs``: what the batches tell
- ``durability``: what has to be synced, and the steps of a flush
- ``closed_segments``, ``truncation``: what is removed, replaced and cut off
- ``health``, ``events``: what a failing disk does, and who hears of it

A read returns a place in a file, not data. Readers are never blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.log.errors import OffsetOutOfRangeError
from moldau.log.partition.appending import ANY_EPOCH, Appender
from moldau.log.partition.budget import DecompressionBudget
from moldau.log.partition.closed_segments import ClosedSegments
from moldau.log.partition.durability import Durability
from moldau.log.partition.events import LogEvents, LogObserver
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.health import LogHealth
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.offsets import LogOffsets
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.partition.producer_state import AppendOrigin, ProducerState
from moldau.log.partition.results import ActiveProducer, AppendInfo, TimestampedOffset
from moldau.log.partition.retention import count_deletable
from moldau.log.partition.rolling import SegmentRoller
from moldau.log.partition.segments import LogSegments
from moldau.log.partition.time_lookup import TimeLookup
from moldau.log.partition.truncation import Truncation
from moldau.log.partition.validation import CheckedBatch
from moldau.log.segment.segment import Segment
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.machine import FileSlice
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition


class PartitionLog(LogOffsets):
    """One partition's log. Built by ``recovery.load_log`` or ``LogManager``."""

    __slots__ = (
        "_appender",
        "_config",
        "_events",
        "_roller",
        "_segments",
        "_snapshots",
        "_tail",
        "closed_segments",
        "durability",
        "health",
        "leader_epochs",
        "producers",
        "replaced_by",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        segments: Sequence[Segment],
        *,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: UUID = NO_TOPIC_ID,
        unsynced: Sequence[str] = (),
    ) -> None:
        super().__init__(log_start_offset, recovery_point, log_end_offset)
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.replaced_by: PartitionLog | None = None
        """The log in another directory that has taken this one's place."""
        self._config = config
        self._snapshots = snapshots
        self._events = events = LogEvents(topic_partition)
        self.health = health = LogHealth(events)
        self._segments = log_segments = LogSegments(disk, directory, segments)
        self._tail = log_segments.tail
        self.closed_segments = ClosedSegments(self, log_segments, snapshots, health, events)
        self.durability = durability = Durability(
            disk, self, log_segments, leader_epochs, health, unsynced=unsynced, now_ms=now_ms
        )
        self._roller = roller = SegmentRoller(
            config, log_segments, producers, snapshots, durability, health, events
        )
        self._appender = Appender(
            config, self, log_segments, roller, leader_epochs, producers, health
        )
        log_segments.active.configure(config)

    @property
    def current(self) -> PartitionLog:
        """This log, or the one that has taken its place since: for who holds it over an await."""
        log = self
        while log.replaced_by is not None:
            log = log.replaced_by
        return log

    # Settings and state ------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        if config is not self._config:
            self._config = self._roller.config = config
            self._appender.configure(config)
            self._segments.active.configure(config)

    @property
    def directory(self) -> str:
        return self._segments.directory

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments.all

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self._segments.size

    @property
    def failure(self) -> str | None:
        """Why the log is offline, if it is."""
        return self.health.failure

    @property
    def on_failure(self) -> Callable[[str], None] | None:
        """Called once with the reason, when the log has gone offline."""
        return self.health.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[str], None] | None) -> None:
        self.health.on_failure = callback

    @property
    def on_flushed(self) -> Callable[[], None] | None:
        """Called when more of the log has become durable."""
        return self.durability.on_flushed

    @on_flushed.setter
    def on_flushed(self, callback: Callable[[], None] | None) -> None:
        self.durability.on_flushed = callback

    def observe(self, observer: LogObserver | None) -> None:
        """From now on ``observer`` hears what happens to the log, and nobody else."""
        self._events.observer = observer

    @property
    def settled_end(self) -> int:
        """The end of what counts as stored: the log end; or, where ``flush.messages`` asks for a
        flush before that, the end of what is durable.
        """
        end = self.log_end_offset
        if end - self.recovery_point >= self._config.flush_messages:
            return self.recovery_point
        return end

    def request_flush(self) -> None:
        """Ask whoever looks after the log to make it durable soon."""
        self._events.flush_due()

    # Appending ---------------------------------------------------------------------------------

    def check(self, records: memoryview, now_ms: int) -> CheckedBatch:
        """Check what a produce request holds for this partition, in a thread: it may take long."""
        return self._appender.rules.check(records, now_ms)

    def append_as_leader(
        self,
        records: memoryview | CheckedBatch,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        budget: DecompressionBudget | None = None,
    ) -> AppendInfo:
        """Append what a produce request holds for this partition, giving it offsets. It is checked
        here, within ``budget``, unless it was by ``check``.

        ``records`` is written to: offset and epoch (and timestamps, if the topic says so) are
        patched in place. Raises KafkaError with Kafka's codes; after an IO error
        KAFKA_STORAGE_ERROR, and nothing of the failed append can ever be read.
        """
        return self._appender.append_as_leader(records, leader_epoch, now_ms, origin, budget)

    def append_as_follower(
        self, records: memoryview, now_ms: int, leader_epoch: int = ANY_EPOCH
    ) -> AppendInfo:
        """Append the leader's batches as they are, offsets and epochs included.

        Those of a later epoch than ``leader_epoch`` cannot be the leader's, and nothing from the
        first of them on is taken. A bad batch is refused when it is the first one: what comes
        before it is good. Raises CORRUPT_MESSAGE, and UnexpectedOffsetError for a batch that begins
        before the end of the log.
        """
        return self._appender.append_as_follower(records, now_ms, leader_epoch)

    def assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        """Note that this broker leads from ``offset`` on with ``epoch``."""
        self.leader_epochs.assign(epoch, offset)

    def roll(self, now_ms: int) -> None:
        """Close the active segment and start a new one at the log end."""
        self.health.check()
        self._roller.roll(self.log_end_offset, now_ms)

    # Reading -----------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Returns where the batches from ``offset`` on lie, ending before ``upper_offset``.

        None if there is nothing to read yet. If the first batch is larger than ``max_bytes``, it
        comes whole with ``min_one_batch`` and not at all without. Raises OFFSET_OUT_OF_RANGE.
        """
        if self.health.failure is not None:
            self.health.check()
        end = self.log_end_offset
        if offset > end or offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic_partition} is not in "
                f"[{self.log_start_offset}, {end}]"
            )
        if offset >= upper_offset or offset == end:
            return None
        tail = self._tail
        if tail.offsets and offset >= tail.offsets[0]:
            upper = upper_offset if upper_offset < end else None
            return tail.locate(self._segments.active, offset, max_bytes, upper, min_one_batch)
        try:
            return self._segments.locate(offset, max_bytes, upper_offset, end, min_one_batch)
        except OSError as error:
            raise self.health.storage_error("read", error) from error

    def last_stable_offset(self, high_watermark: int) -> int:
        """Returns the end of what a reader of committed data may see."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    def aborted_transactions(self, start: int, upper: int) -> list[tuple[int, int]]:
        """Returns producer and first offset of the aborted transactions in [start, upper)."""
        self.health.check()
        aborted: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(start):
            if segment.txn_index.collect(start, upper, aborted):
                break
        return [(transaction.producer_id, transaction.first_offset) for transaction in aborted]

    def offset_for_timestamp(
        self, timestamp: int, lookup: TimeLookup | None = None
    ) -> TimestampedOffset | None:
        """Returns the first record at or after ``timestamp``.

        LongSearchError if a batch has to be searched in a thread; ``lookup`` keeps what comes of
        that for the next try.
        """
        self.health.check()
        with self.health.storage_errors("read"):
            return (lookup or TimeLookup()).find_timestamp(
                self._segments.all, timestamp, self.log_start_offset
            )

    def max_timestamp_offset(self, lookup: TimeLookup | None = None) -> TimestampedOffset | None:
        """Returns the first record with the largest timestamp in the log; as above."""
        self.health.check()
        with self.health.storage_errors("read"):
            return (lookup or TimeLookup()).find_largest_timestamp(self._segments.all)

    def earliest(self) -> tuple[int, int]:
        """Returns the log start offset and the epoch in force there (-1 if unknown)."""
        start = self.log_start_offset
        epoch = self.leader_epochs.epoch_for_offset(start)
        return start, -1 if epoch is None else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Returns the largest epoch up to ``epoch`` in this log and where it ends; (-1, -1) if
        unknown.
        """
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def active_producers(self) -> list[ActiveProducer]:
        return self.producers.active()

    # Start and end move ------------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the start up (DeleteRecords, retention); whole segments before it are removed."""
        self.health.check()
        if offset > self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is beyond the end {self.log_end_offset} of {self.topic_partition}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)
        self.closed_segments.remove_before(offset)
        return True

    def delete_old_segments(self, high_watermark: int, now_ms: int, *, at_most: int) -> int:
        """Remove what retention lets go, the oldest first; returns how many segments went."""
        self.health.check()
        if self.closed_segments.being_replaced:
            return 0
        segments = self._segments
        with self.health.storage_errors("retention"):
            count = count_deletable(
                segments.all,
                self._config,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=high_watermark,
                now_ms=now_ms,
            )
        count = min(count, at_most)
        if count == 0:
            return 0
        if count == len(segments.all):
            self._roller.roll(self.log_end_offset, now_ms, for_deletion=True)
        offset = segments.bases[count]
        if not self.increment_log_start_offset(offset):
            self.closed_segments.remove_before(offset)
        return count

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop everything from ``offset`` on; returns whether there was anything.

        The recovery point moves down with the end. The truncation must be flushed, and then the
        recovery point checkpointed, before anything is appended again: a running broker goes
        through ``LogManager.truncate_to``.
        """
        self.health.check()
        if offset >= self.log_end_offset:
            # Who led here and appended nothing knows of an epoch that its leader has never seen.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return False
        with self.health.fatal_errors("truncate"):
            if offset <= self._segments.bases[0]:
                self._truncation().fully(offset, self._config, now_ms)
            else:
                self._truncation().to(offset, now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin again at ``offset``."""
        self.health.check()
        with self.health.fatal_errors("truncate"):
            self._truncation().fully(offset, self._config, now_ms)

    def _truncation(self) -> Truncation:
        return Truncation(
            self,
            self._segments,
            self.leader_epochs,
            self.producers,
            self._snapshots,
            self.durability,
        )

    # Life --------------------------------------------------------------------------------------

    def prepare_close(self) -> FlushJob | None:
        """Bring everything into its final form on disk; the job makes it durable.

        Only for a log that is online. After the job has run, a clean start needs no recovery.
        """
        self.health.check()
        with self.health.fatal_errors("close"):
            self._roller.finish()
        return self.durability.prepare_flush()

    def close(self) -> None:
        """Let go of all files. Without ``prepare_close`` this is a crash, as far as disks go."""
        self._segments.close()

    def retire(self) -> None:
        """The partition is not served here any more; whoever still holds it gets an error."""
        self.health.retire("the partition was removed from this broker")
        self.close()

    def renamed(self, directory: str) -> None:
        """The directory has another name now, and the log is used no more."""
        self._snapshots.directory = directory
        self._segments.renamed(directory)

    def moved(self, directory: str) -> None:
        """The directory has another name now, and the log is used on: files stay open."""
        self.durability.moved(self.directory, directory)
        self._snapshots.directory = directory
        self._segments.moved(directory)

    def take_over_state(self, log: PartitionLog) -> None:
        """Continue where another log with the same batches is: what it knows beyond them stays
        known, such as producers whose batches are gone.
        """
        self.topic_id = log.topic_id
        self.producers.take_over(log.producers)
        self.leader_epochs.take_over(log.leader_epochs)
        # Until the new name is durable a power cut may bring the other log back.
        self.recovery_point = min(self.recovery_point, log.recovery_point)
        self.durability.last_flush_ms = log.durability.last_flush_ms
        self.config = log.config

"""The log of one partition: append, read, roll, flush, truncate.

Synchronous and single-threaded: it is called from the event loop and writes to the page cache;
syncing is left to worker threads (see ``flush``).

Offsets: ``log_start_offset`` ≤ ``recovery_point`` (durable up to here) ≤ ``log_end_offset``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from moldau.log.errors import OffsetOutOfRangeError, StorageError, is_full, is_passing
from moldau.log.files.names import LEADER_EPOCH_CHECKPOINT
from moldau.log.partition.appendable_log import AppendableLog
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.retention import count_deletable
from moldau.log.segment.segment import Segment

_CHEAP_TO_REPLAY_BYTES: Final = 16_384
"""Reading so much at the next start costs no more than a file that says that there is no producer.
Ten thousand quiet partitions then need no such file."""


class PartitionLog(AppendableLog):
    """One partition's log. Built by ``recovery.load_log`` or ``LogManager``."""

    __slots__ = ()

    @property
    def current(self) -> PartitionLog:
        """This log, or the one that has taken its place since: for who holds it over an await."""
        log = self
        while log.replaced_by is not None:
            log = log.replaced_by
        return log

    # Start and end move ------------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the start up (DeleteRecords, retention); whole segments before it are removed."""
        self._check_online()
        if offset > self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is beyond the end {self.log_end_offset} of {self.topic_partition}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)
        self.delete_segments_before(offset)
        return True

    def delete_old_segments(self, high_watermark: int, now_ms: int, *, at_most: int) -> int:
        """Remove what retention lets go, the oldest first; answers how many segments went."""
        self._check_online()
        if self._replacing:
            return 0
        try:
            count = count_deletable(
                self._segments,
                self._config,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=high_watermark,
                now_ms=now_ms,
            )
        except OSError as error:
            raise self._storage_error("retention", error) from error
        count = min(count, at_most)
        if count == 0:
            return 0
        if count == len(self._segments):
            self.roll(now_ms, for_deletion=True)
        offset = self._bases[count]
        if not self.increment_log_start_offset(offset):
            self.delete_segments_before(offset)
        return count

    def delete_segments_before(self, offset: int) -> int:
        """Remove the closed segments that hold nothing from ``offset`` on; answers how many.

        While the cleaner renames files they stay, until it is done.
        """
        count = 0
        while (
            not self._replacing
            and count + 1 < len(self._bases)
            and self._bases[count + 1] <= offset
        ):
            count += 1
        if count == 0:
            return 0
        removed = self._segments[:count]
        self._change_older_segments(self._segments[count:])
        self._remove_segments(removed)
        return count

    def _change_older_segments(self, segments: Sequence[Segment]) -> None:
        """Replace the list of segments; the active one is the same as before."""
        tail = self._tail_offsets, self._tail_positions
        roll_after = self._roll_after
        self._set_segments(segments)
        self._tail_offsets, self._tail_positions = tail
        self._roll_after = roll_after

    def _remove_segments(self, removed: Sequence[Segment]) -> None:
        paths: list[str] = []
        try:
            for segment in removed:
                paths += segment.mark_deleted()
                self._snapshots.forget(segment.base_offset)
        except OSError as error:
            raise self._failed("delete segments", error) from error
        if self.on_segments_removed is not None:
            self.on_segments_removed(self, paths)

    def begin_replacing(self, old: Sequence[Segment]) -> None:
        """The files of closed segments are about to be renamed, in a thread.

        Whatever is needed to read from them is opened, so that readers need no names; nothing else
        may rename or remove them until ``replace_segments``.
        """
        self._check_online()
        try:
            for segment in old:
                segment.open_all()
        except OSError as error:
            raise self._storage_error("open segments", error) from error
        self._replacing = True

    def replace_segments(
        self, old: Sequence[Segment], new: Segment, deleted: Sequence[str]
    ) -> None:
        """One segment has taken the place of ``old`` ones, whose files are now ``deleted``.

        Readers that hold the old ones finish on them.
        """
        self._replacing = False
        new.sealed = True
        first = self._segments.index(old[0])
        self._change_older_segments(
            (*self._segments[:first], new, *self._segments[first + len(old) :])
        )
        for segment in old[1:]:
            self._snapshots.forget(segment.base_offset)
        if self.on_segments_removed is not None:
            self.on_segments_removed(self, list(deleted))
        self.delete_segments_before(self.log_start_offset)

    def replacing_failed(self, error: OSError) -> StorageError:
        """Nobody knows under which names the files are: the next start will sort them."""
        return self._failed("swap in a cleaned segment", error)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop everything from ``offset`` on; answers whether there was anything.

        The recovery point moves down with the end. The truncation must be flushed, and then the
        recovery point checkpointed, before anything is appended again: a running broker goes
        through ``LogManager.truncate_to``.
        """
        self._check_online()
        if offset >= self.log_end_offset:
            return False
        if offset <= self._bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        try:
            self._truncate(offset, now_ms)
        except OSError as error:
            raise self._failed("truncate", error) from error
        return True

    def _truncate(self, offset: int, now_ms: int) -> None:
        kept = bisect_right(self._bases, offset - 1)
        removed = self._segments[kept:]
        self._set_segments(self._segments[:kept])
        self._active.truncate_to(offset)
        for segment in reversed(removed):
            segment.remove()
        # Until this is synced, a power cut may bring back what was cut off.
        self._truncated = self._active.file
        self._needs_dir_sync()
        self.log_end_offset = max(self._active.next_offset(), self._active.base_offset)
        self._shrink_to_end(now_ms)

    def _shrink_to_end(self, now_ms: int) -> None:
        end = self.log_end_offset
        self._generation += 1
        self.recovery_point = min(self.recovery_point, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.leader_epochs.truncate_from_end(end)
        self._snapshots.truncate(end)
        self._snapshots.rebuild(self.producers, self._segments, self._bases[0], end, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin again at ``offset``."""
        self._check_online()
        try:
            for segment in reversed(self._segments):
                segment.remove()
            segment = self._new_segment(offset, now_ms)
            segment.create(self._segment_bytes if self._config.preallocate else 0)
        except OSError as error:
            raise self._failed("truncate", error) from error
        self._set_segments((segment,))
        self._needs_dir_sync()
        self._generation += 1
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.leader_epochs.clear()
        self._snapshots.truncate(-1)
        self.producers.clear(offset)

    # Durability --------------------------------------------------------------------------------

    def prepare_flush(self, offset: int | None = None) -> FlushJob | None:
        """What has to be synced so that everything before ``offset`` (the end) is durable.

        None if it is already. Run the job in a worker thread, then call ``complete_flush`` or
        ``flush_failed``.
        """
        self._check_online()
        target = self.log_end_offset if offset is None else min(offset, self.log_end_offset)
        if (
            target <= self.recovery_point
            and not self.leader_epochs.dirty
            and not self._unsynced
            and self._truncated is None
        ):
            return None
        files = [] if self._truncated is None else [self._truncated]
        try:
            for segment in self._segments[self._number_of(self.recovery_point) :]:
                if segment.size and segment.base_offset < target:
                    files.append(segment.file)
                    self._persist_indexes(segment)
        except OSError as error:
            raise self._storage_error("flush", error) from error
        job = FlushJob(
            self._disk,
            target,
            self._generation,
            files=files,
            paths=self._unsynced,
            epochs=self._dirty_epochs(),
            directories=self._directories_to_sync,
        )
        self._truncated = None
        self._unsynced = []
        self._directories_to_sync = []
        return job

    def _persist_indexes(self, segment: Segment) -> None:
        if segment.persist_indexes(self._unsynced):
            self._needs_dir_sync()

    def _dirty_epochs(self) -> tuple[str, bytes] | None:
        if not self.leader_epochs.dirty:
            return None
        self.leader_epochs.dirty = False
        return f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}", self.leader_epochs.encode()

    def complete_flush(self, job: FlushJob, now_ms: int) -> None:
        """The job has run: what it covered is durable, unless the log was truncated meanwhile."""
        self.last_flush_ms = now_ms
        if job.generation == self._generation and job.offset > self.recovery_point:
            self.recovery_point = min(job.offset, self.log_end_offset)

    def flush_failed(self, job: FlushJob, error: OSError) -> StorageError:
        """The job has not run to its end: the log is offline, or the work is still to be done.

        A sync that failed is never tried again, not even for lack of room: the system may have
        forgotten what it could not write.
        """
        if job.sync_failed:
            return self._failed("flush", error)
        if is_passing(error) or is_full(error):
            self._unsynced = job.paths + self._unsynced
            self._directories_to_sync = job.directories + self._directories_to_sync
            self.leader_epochs.dirty |= job.epochs is not None
            if self._truncated is None and job.files:
                self._truncated = job.files[0]
        return self._storage_error("flush", error)

    def flush(self, now_ms: int) -> None:
        """Flush here and now (tools and tests; a broker uses the two halves)."""
        job = self.prepare_flush()
        if job is None:
            return
        try:
            job.run()
        except OSError as error:
            raise self.flush_failed(job, error) from error
        self.complete_flush(job, now_ms)

    def expire_producers(self, oldest_ms: int) -> None:
        self.producers.expire(oldest_ms)

    def prepare_close(self) -> FlushJob | None:
        """Bring everything into its final form on disk; the job makes it durable.

        Only for a log that is online. After the job has run, a clean start needs no recovery.
        """
        self._check_online()
        try:
            active = self._active
            active.seal_indexes()
            # Recovery may have rebuilt the indexes of data that needs no flush itself.
            self._persist_indexes(active)
            if active.size and self._config.preallocate:
                active.file.truncate(active.size)
            if self.producers.producers or active.size > _CHEAP_TO_REPLAY_BYTES:
                self._take_snapshot()
        except OSError as error:
            raise self._failed("close", error) from error
        return self.prepare_flush()

    def close(self) -> None:
        """Let go of all files. Without ``prepare_close`` this is a crash, as far as disks go."""
        for segment in self._segments:
            segment.close()

    def retire(self) -> None:
        """The partition is not served here any more; whoever still holds it gets an error."""
        self._failure = "the partition was removed from this broker"
        self.close()

    def moved(self, directory: str) -> None:
        """The directory has another name now, and the log is used on: files stay open."""
        old = len(self.directory)
        self._unsynced = [directory + path[old:] for path in self._unsynced]
        self.directory = directory
        self._snapshots.directory = directory
        for segment in self._segments:
            segment.moved(directory)

    def cannot_take_over(self, error: OSError) -> StorageError:
        """The copy could not be given the partition's name."""
        return self._storage_error("rename", error)

    def take_over_state(self, log: PartitionLog) -> None:
        """Continue where another log with the same batches is: what it knows beyond them stays
        known, such as producers whose batches are gone.
        """
        self.topic_id = log.topic_id
        self.producers = log.producers
        self.leader_epochs = LeaderEpochs(log.leader_epochs.entries)
        self.leader_epochs.dirty = True
        # Until the new name is durable a power cut may bring the other log back.
        self.recovery_point = min(self.recovery_point, log.recovery_point)
        self.last_flush_ms = log.last_flush_ms
        self.config = log.config

    def renamed(self, directory: str) -> None:
        """The directory has another name now, and the log is used no more."""
        self.directory = directory
        self._snapshots.directory = directory
        for segment in self._segments:
            segment.close()
            segment.directory = directory

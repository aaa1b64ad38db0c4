"""What of a log is durable, and what has to be synced so that more is.

A flush has three steps: ``prepare_flush`` on the event loop, ``FlushJob.run`` in a worker thread,
and ``complete_flush`` or ``flush_failed`` on the loop again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from moldau.log.errors import StorageError
from moldau.log.files.names import LEADER_EPOCH_CHECKPOINT
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.health import LogHealth
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.offsets import LogOffsets
from moldau.log.partition.segments import LogSegments
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Disk, File
from moldau.machine.errors import is_full, is_passing


class Durability:
    __slots__ = (
        "_ceiling",
        "_directories",
        "_disk",
        "_generation",
        "_health",
        "_leader_epochs",
        "_offsets",
        "_segments",
        "_truncated",
        "_unsynced",
        "last_flush_ms",
        "on_flushed",
    )

    def __init__(
        self,
        disk: Disk,
        offsets: LogOffsets,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        health: LogHealth,
        *,
        unsynced: Sequence[str],
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._offsets = offsets
        self._segments = segments
        self._leader_epochs = leader_epochs
        self._health = health
        self._ceiling: int | None = None
        self._generation = 0
        self._truncated: File | None = None
        self._unsynced = list(unsynced)
        self._directories = [segments.directory] if unsynced else []
        self.last_flush_ms = now_ms
        self.on_flushed: Callable[[], None] | None = None

    # What there is to do -----------------------------------------------------------------------

    def needs_sync(self, paths: Iterable[str]) -> None:
        """These files were written to."""
        self._unsynced += paths

    def needs_directory_sync(self) -> None:
        """Names in the log's directory have changed."""
        if self._segments.directory not in self._directories:
            self._directories.append(self._segments.directory)

    def created(self, parent: str) -> None:
        """The directory may be new: the first flush makes its name durable too."""
        self._directories = [self._segments.directory, parent]

    def persist_indexes(self, segment: Segment) -> None:
        """Bring the index entries of a segment into their files."""
        if segment.persist_indexes(self._unsynced):
            self.needs_directory_sync()

    def begin_truncation(self, offset: int) -> None:
        """The log will be cut at ``offset``: from now on nothing behind it is taken for durable.

        It has to be written down before the first file is cut. A power cut leaves some of the
        changes, and recovery believes every index below the recovery point.
        """
        self._ceiling = offset
        self._offsets.recovery_point = min(self._offsets.recovery_point, offset)

    def end_truncation(self) -> None:
        """It is done, or not wanted any more."""
        self._ceiling = None

    def truncated(self, file: File) -> None:
        """The log ends earlier now. Until ``file`` is synced, a power cut may bring back what was
        cut off.
        """
        self._truncated = file
        self.needs_directory_sync()
        self._generation += 1
        self._offsets.recovery_point = min(
            self._offsets.recovery_point, self._offsets.log_end_offset
        )

    def moved(self, old: str, new: str) -> None:
        """The directory has another name now."""
        self._unsynced = [new + path[len(old) :] for path in self._unsynced]

    def sync_before_next(self, segment: Segment) -> None:
        """Make the active segment durable before there is another one.

        Of two files that are not synced, a power cut may take the end of the first and leave the
        second. In a compacted log recovery cannot tell that from a gap that compaction made. Nobody
        was told that what is missing is there, but a producer that sends it again would find it out
        of order. Once for a segment, the event loop may wait for a disk.
        """
        if self._offsets.recovery_point < self._offsets.log_end_offset:
            with self._health.fatal_errors("flush"):
                segment.file.sync()
            # Takes a descriptor, which may be lacking for now.
            with self._health.storage_errors("flush"):
                self._disk.sync_dir(self._segments.directory)

    # The steps of a flush ----------------------------------------------------------------------

    def prepare_flush(self, offset: int | None = None) -> FlushJob | None:
        """Returns what has to be synced so that everything before ``offset`` (the end) is durable,
        None if it is already.
        """
        self._health.check()
        offsets = self._offsets
        target = offsets.log_end_offset if offset is None else min(offset, offsets.log_end_offset)
        if (
            target <= offsets.recovery_point
            and not self._leader_epochs.dirty
            and not self._unsynced
            and self._truncated is None
        ):
            return None
        files = [] if self._truncated is None else [self._truncated]
        with self._health.storage_errors("flush"):
            for segment in self._segments.from_offset(offsets.recovery_point):
                if segment.size and segment.base_offset < target:
                    files.append(segment.file)
                    self.persist_indexes(segment)
        job = FlushJob(
            self._disk,
            target,
            self._generation,
            files=files,
            paths=self._unsynced,
            epochs=self._dirty_epochs(),
            directories=self._directories,
        )
        self._truncated = None
        self._unsynced = []
        self._directories = []
        return job

    def _dirty_epochs(self) -> tuple[str, bytes] | None:
        if not self._leader_epochs.dirty:
            return None
        self._leader_epochs.dirty = False
        path = f"{self._segments.directory}/{LEADER_EPOCH_CHECKPOINT}"
        return path, self._leader_epochs.encode()

    def complete_flush(self, job: FlushJob, now_ms: int) -> None:
        """What the job covered is durable, unless the log was truncated meanwhile."""
        self.last_flush_ms = now_ms
        offsets = self._offsets
        if (
            job.generation == self._generation
            and job.offset > offsets.recovery_point
            and self._ceiling is None
        ):
            offsets.recovery_point = min(job.offset, offsets.log_end_offset)
            if self.on_flushed is not None:
                self.on_flushed()

    def flush_failed(self, job: FlushJob, error: OSError) -> StorageError:
        """The job has not run to its end: the log is offline, or the work is still to be done.

        A sync that failed is never tried again, not even for lack of room: the system may have
        forgotten what it could not write.
        """
        if job.sync_failed:
            return self._health.fatal_error("flush", error)
        if is_passing(error) or is_full(error):
            self._unsynced = job.paths + self._unsynced
            self._directories = job.directories + self._directories
            self._leader_epochs.dirty |= job.epochs is not None
            if self._truncated is None and job.files:
                self._truncated = job.files[0]
        return self._health.storage_error("flush", error)

    def flush(self, now_ms: int) -> None:
        """All steps here and now (tools and tests; a broker must not block)."""
        job = self.prepare_flush()
        if job is None:
            return
        try:
            job.run()
        except OSError as error:
            raise self.flush_failed(job, error) from error
        self.complete_flush(job, now_ms)

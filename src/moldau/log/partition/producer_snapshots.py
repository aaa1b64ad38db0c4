"""The producer snapshot files of one log: taken on roll and close, used to rebuild the state."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from moldau.log.errors import CorruptSnapshotError
from moldau.log.files.names import SNAPSHOT_SUFFIX, file_name
from moldau.log.files.producer_snapshot import decode_snapshot, encode_snapshot
from moldau.log.partition.producer_state import ProducerState, apply_batch
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Disk

_log = logging.getLogger(__name__)


class ProducerSnapshots:
    """Which snapshots exist. Each holds the state as of the offset in its name."""

    __slots__ = ("_disk", "_last_taken", "_offsets", "directory", "expiration_ms")

    def __init__(
        self, disk: Disk, directory: str, offsets: Iterable[int], expiration_ms: int
    ) -> None:
        self._disk = disk
        self._offsets = sorted(offsets)
        self._last_taken = self._offsets[-1] if self._offsets else -1
        self.directory = directory
        self.expiration_ms = expiration_ms

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    def path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def take(self, state: ProducerState) -> str | None:
        """Write the state at its end offset, if there is none yet; returns the file to sync."""
        offset = state.end_offset
        if offset <= self._last_taken or offset == 0:
            return None
        path = self.path(offset)
        self._disk.write(path, encode_snapshot(state.snapshot()))
        self._offsets.append(offset)
        self._last_taken = offset
        return path

    def forget(self, offset: int) -> None:
        """The snapshot went away with its segment."""
        if offset in self._offsets:
            self._offsets.remove(offset)

    def truncate(self, end_offset: int) -> None:
        """Delete the snapshots beyond the end of the log."""
        for offset in [offset for offset in self._offsets if offset > end_offset]:
            self._disk.remove(self.path(offset))
            self._offsets.remove(offset)
        self._last_taken = self._offsets[-1] if self._offsets else -1

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Keep those of segments and the latest one, which a clean close left behind."""
        wanted = set(bases)
        latest = self._offsets[-1] if self._offsets else -1
        for offset in [offset for offset in self._offsets if offset not in wanted]:
            if offset != latest or (bases and offset < bases[-1]):
                self._disk.remove(self.path(offset))
                self._offsets.remove(offset)

    def load_latest(
        self, state: ProducerState, start_offset: int, end_offset: int, now_ms: int
    ) -> int:
        """Load the latest readable snapshot up to ``end_offset``; returns its offset.

        Damaged snapshots are deleted. Without any the state is empty at the start offset.
        """
        for offset in reversed(self._offsets):
            if not start_offset < offset <= end_offset:
                continue
            try:
                entries = decode_snapshot(self._disk.read(self.path(offset)))
            except (CorruptSnapshotError, FileNotFoundError) as error:
                _log.warning("%s is unusable: %s", self.path(offset), error)
                self._disk.remove(self.path(offset))
                self._offsets.remove(offset)
                continue
            state.load(entries, offset, now_ms - self.expiration_ms)
            return offset
        state.clear(start_offset)
        return start_offset

    def rebuild(
        self,
        state: ProducerState,
        segments: Sequence[Segment],
        start_offset: int,
        end_offset: int,
        now_ms: int,
    ) -> None:
        """State as of ``end_offset``: the latest snapshot, and the batches after it."""
        offset = self.load_latest(state, start_offset, end_offset, now_ms)
        if offset < end_offset:
            replay(state, segments, offset, end_offset)
        state.end_offset = end_offset


def replay(state: ProducerState, segments: Sequence[Segment], offset: int, end_offset: int) -> None:
    """Apply the batches in [offset, end_offset) to the state. Reads headers, and whole markers."""
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= offset:
            continue
        if segment.size == 0 or segment.base_offset >= end_offset:
            continue
        first = segment.find(offset)
        if first is None:
            continue
        for position, header in iter_file_headers(segment.file, first.position, segment.size):
            if header.base_offset >= end_offset:
                return
            if header.has_producer_id:
                batch = segment.file.pread(header.size, position) if header.is_control else b""
                apply_batch(state, header, memoryview(batch))

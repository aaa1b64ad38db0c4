"""The segment that a cleaning writes, beside the ones it will replace."""

from __future__ import annotations

from typing import Final

from moldau.log.files.names import CLEANED_SUFFIX
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Buffer

_WRITE_BYTES: Final = 1 << 20


class CleanedSegment(Segment):
    """Files with ``.cleaned`` names; the indexes grow with the batches, as in any segment."""

    __slots__ = ("_pending",)

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED_SUFFIX

    def begin(self) -> None:
        self._pending = bytearray()
        self.create()
        self._begin_indexes()

    def add(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        pending = self._pending
        self.note_batches(
            self.size + len(pending), len(batch), last_offset, max_timestamp, last_offset
        )
        pending += batch
        if len(pending) >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self.file.append(self._pending)
            self.size += len(self._pending)
            self._pending = bytearray()

    def finish(self) -> None:
        """Bring everything into its final form, durably."""
        self._write()
        if not self.size:
            # Kafka wants to see the indexes of an empty segment, too.
            self.offset_index.seal()
            self.time_index.seal()
        self.seal()
        for path in self.index_paths():
            self._disk.sync(path)
        self.file.sync()
        self.close()
        self._disk.sync_dir(self.directory)

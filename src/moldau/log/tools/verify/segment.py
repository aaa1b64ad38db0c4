"""One segment: every batch of its log file, and the indexes beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.log.files.names import INDEX_SUFFIX, LOG_SUFFIX
from moldau.log.tools.files import exists, open_for_reading
from moldau.log.tools.verify.batches import Unreadable, Walked, look_into, walk
from moldau.log.tools.verify.findings import Expectation, Finding, Level, Totals
from moldau.log.tools.verify.indexes import IndexChecks


class SegmentCheck:
    """Checks one segment; afterwards ``end_offset`` is known."""

    def __init__(
        self,
        path: str,
        base_offset: int,
        *,
        is_last: bool,
        expected: Expectation,
        totals: Totals,
        deep: bool,
    ) -> None:
        self._path = path
        self._base_offset = base_offset
        self._is_last = is_last
        self._expected = expected
        self._totals = totals
        self._deep = deep
        self.end_offset = base_offset
        """After the last good batch."""
        self.size = 0

    def run(self, saw: Callable[[Walked], Iterator[Finding]]) -> Iterator[Finding]:
        """What is wrong; ``saw`` is shown every good batch."""
        base_path = self._path.removesuffix(LOG_SUFFIX)
        indexes = IndexChecks(base_path, self._base_offset, self._expected)
        file = open_for_reading(self._path)
        self._totals.segments += 1
        self.size = file.size
        if file.size and self._expected.clean and not exists(base_path + INDEX_SUFFIX):
            yield Finding(base_path + INDEX_SUFFIX, "is missing", "rebuilt from the log")
        try:
            for batch in walk(file):
                if isinstance(batch, Unreadable):
                    yield from self._unreadable(batch)
                    break
                yield from self._check(batch, file.size)
                indexes.saw(batch)
                yield from saw(batch)
        finally:
            file.close()
        self._totals.bytes += file.size
        expected = self._expected
        closed = not self._is_last and self._base_offset < expected.recovery_point
        yield from indexes.end(self.end_offset, file.size, complete=expected.clean or closed)

    def _check(self, batch: Walked, size: int) -> Iterator[Finding]:
        header = batch.header
        self._totals.batches += 1
        if not batch.crc_ok:
            yield self._bad(batch, "the CRC of the batch is wrong", size)
        elif header.base_offset < self.end_offset:
            problem = f"the batch begins at offset {header.base_offset}, before {self.end_offset}"
            yield self._bad(batch, problem, size)
        elif header.last_offset_delta < 0 or header.records_count < 0:
            problem = (
                f"the header says {header.records_count} records, "
                f"the last at {header.last_offset_delta} after the first"
            )
            yield self._bad(batch, problem, size)
        elif header.records_count > header.last_offset_delta + 1:
            problem = (
                f"{header.records_count} records do not fit into "
                f"{header.last_offset_delta + 1} offsets"
            )
            yield self._bad(batch, problem, size)
        elif self._deep:
            count, wrong = look_into(batch)
            self._totals.records += count
            if wrong is not None:
                yield self._bad(batch, wrong, size, served=True)
        else:
            self._totals.records += header.records_count
        self.end_offset = max(self.end_offset, header.next_offset)

    def _bad(self, batch: Walked, problem: str, size: int, *, served: bool = False) -> Finding:
        offset = batch.header.base_offset
        if served or not self._expected.is_checked_at_start(offset):
            done = "nothing: it is not read at the start, and served as it is"
        else:
            done = f"the log is cut here: {size - batch.position} bytes and all later segments go"
        return Finding(self._path, problem, done, batch.position, offset)

    def _unreadable(self, rest: Unreadable) -> Iterator[Finding]:
        position, size, is_zero = rest
        what = "zero" if is_zero else "not a record batch"
        problem = f"{size} bytes from here on are {what}"
        if not self._is_last:
            done = "the log is cut here, and later segments go, if the start reads this one"
            yield Finding(self._path, problem, done, position, self.end_offset)
        elif self._expected.clean:
            done = "taken for an unclean stop: the log is checked and cut here"
            yield Finding(self._path, problem, done, position, self.end_offset)
        else:
            done = f"cut off: the log ends at offset {self.end_offset}"
            level = Level.NOTE
            if self.end_offset < self._expected.recovery_point:
                level = Level.DAMAGE  # more than a crash can take
            yield Finding(self._path, problem, done, position, self.end_offset, level)

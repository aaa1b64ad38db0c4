"""The indexes of one segment, compared with its batches as these go by."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

from moldau.log.files.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.log.segment import offset_index, time_index, transaction_index
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.log.tools.files import DISK
from moldau.log.tools.verify.batches import Walked
from moldau.log.tools.verify.findings import Expectation, Finding

_REBUILT = "rebuilt from the log"


class IndexChecks:
    """Reads the three files, then is shown every batch in order, and tells what does not fit."""

    def __init__(self, base_path: str, base_offset: int, expected: Expectation) -> None:
        self._base_offset = base_offset
        self._expected = expected
        self.findings: list[Finding] = []
        self._offset_path = base_path + INDEX_SUFFIX
        self._time_path = base_path + TIME_INDEX_SUFFIX
        self._txn_path = base_path + TXN_INDEX_SUFFIX
        # Next entry last, so that they can be popped.
        self._by_position = self._read(self._offset_path, offset_index.ENTRY)[::-1]
        self._by_time = self._read(self._time_path, time_index.ENTRY)[::-1]
        self._aborted = self._read_transactions()
        self._largest = -1
        self._last_time = self._by_time[0][0] if self._by_time else -1
        self._check_order()

    def _read(self, path: str, entry: struct.Struct) -> list[tuple[int, int]]:
        try:
            data = DISK.read(path)
        except FileNotFoundError:
            return []
        rest = len(data) % entry.size
        if rest:
            self._add(path, f"{rest} bytes at the end are no whole entry", len(data) - rest)
        entries: list[tuple[int, int]] = list(entry.iter_unpack(data[: len(data) - rest]))
        used = len(entries)
        while used and entries[used - 1] == (0, 0):
            used -= 1  # space that was reserved and not used
        return entries[:used]

    def _read_transactions(self) -> list[tuple[int, AbortedTransaction]]:
        entries: list[tuple[int, AbortedTransaction]] = []
        try:
            data = DISK.read(self._txn_path)
        except FileNotFoundError:
            return entries
        size = transaction_index.ENTRY_SIZE
        if len(data) % size:
            at = len(data) - len(data) % size
            self._add(self._txn_path, f"{len(data) % size} bytes at the end are no entry", at)
        for number in range(len(data) // size):
            version, *fields = transaction_index.ENTRY.unpack_from(data, number * size)
            entry = AbortedTransaction(*fields)
            if version != 0 or not self._base_offset <= entry.last_offset:
                self._add(self._txn_path, f"bad entry, version {version}: {entry}", number * size)
            elif entry.first_offset > entry.last_offset:
                self._add(self._txn_path, f"{entry} ends before it begins", number * size)
            else:
                entries.append((number * size, entry))
        return entries[::-1]

    def _check_order(self) -> None:
        for number, (after, before) in enumerate(pairwise(self._by_position)):
            if after[0] <= before[0] or after[1] <= before[1]:
                at = (len(self._by_position) - 1 - number) * offset_index.ENTRY_SIZE
                self._add(self._offset_path, f"entry {after} does not grow from {before}", at)
        for number, (after, before) in enumerate(pairwise(self._by_time)):
            if after[0] <= before[0] or after[1] < before[1]:
                at = (len(self._by_time) - 1 - number) * time_index.ENTRY_SIZE
                self._add(self._time_path, f"entry {after} does not grow from {before}", at)

    def saw(self, batch: Walked) -> None:
        header = batch.header
        while self._by_position and self._by_position[-1][1] <= batch.position:
            relative, position = self._by_position.pop()
            offset = self._base_offset + relative
            # A follower indexes several batches at once: the place of the first, the last offset.
            if position != batch.position or header.base_offset > offset:
                self._add(
                    self._offset_path,
                    f"offset {offset} is said to be at position {position}, where "
                    + ("no batch begins" if position != batch.position else "a later one is"),
                    offset_index.ENTRY_SIZE * len(self._by_position),
                    offset,
                )
        self._largest = max(self._largest, header.max_timestamp)
        while self._by_time and self._base_offset + self._by_time[-1][1] <= header.last_offset:
            timestamp, relative = self._by_time.pop()
            if timestamp != self._largest:
                self._add(
                    self._time_path,
                    f"up to offset {self._base_offset + relative} the largest timestamp is "
                    f"{self._largest}, the index says {timestamp}",
                    time_index.ENTRY_SIZE * len(self._by_time),
                    self._base_offset + relative,
                )
        while self._aborted and self._aborted[-1][1].last_offset <= header.last_offset:
            at, entry = self._aborted.pop()
            if header.base_offset == entry.last_offset and not header.is_control:
                problem = f"{entry} ends at a batch that is no marker"
                self._add(self._txn_path, problem, at, entry.last_offset)

    def end(self, end_offset: int, size: int, *, complete: bool) -> Iterator[Finding]:
        """Entries beyond the last batch, and all that was found before.

        If the index is ``complete`` its last entry is the largest timestamp of all.
        """
        if complete and self._largest > self._last_time:
            self._add(self._time_path, f"the largest timestamp, {self._largest}, is missing")
        if self._by_position:
            relative, position = self._by_position[-1]
            self._add(
                self._offset_path,
                f"position {position} is beyond the {size} bytes of the segment",
                None,
                self._base_offset + relative,
            )
        if self._by_time:
            offset = self._base_offset + self._by_time[-1][1]
            self._add(self._time_path, f"offset {offset} is not in the log", None, offset)
        for at, entry in self._aborted:
            problem = f"{entry} ends beyond the segment, which ends at {end_offset}"
            self._add(self._txn_path, problem, at, entry.last_offset)
        yield from self.findings

    def _add(
        self, path: str, problem: str, at: int | None = None, offset: int | None = None
    ) -> None:
        done = _REBUILT
        if self._expected.clean:
            done = "rebuilt if the start notices: it looks at the size and the last entry only"
        self.findings.append(Finding(path, problem, done, at, offset))

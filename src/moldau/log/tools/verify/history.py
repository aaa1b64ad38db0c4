"""What the batches of a log say about leader epochs and producers, beside the files that say so."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from moldau.log.errors import CorruptCheckpointError, CorruptSnapshotError
from moldau.log.files.names import LEADER_EPOCH_CHECKPOINT
from moldau.log.files.producer_snapshot import SnapshotEntry, decode_snapshot
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.tools.files import DISK
from moldau.log.tools.verify.batches import Walked
from moldau.log.tools.verify.findings import Expectation, Finding


class EpochCheck:
    """``leader-epoch-checkpoint``."""

    def __init__(self, directory: str, *, exists: bool, expected: Expectation) -> None:
        self._path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._expected = expected
        self._epochs: LeaderEpochs | None = None
        self._latest = -1
        self._told = False
        self.findings: list[Finding] = []
        if exists:
            try:
                self._epochs = LeaderEpochs.decode(DISK.read(self._path), self._path)
            except CorruptCheckpointError as error:
                self._add(str(error), None)

    def saw(self, batch: Walked) -> Iterator[Finding]:
        header = batch.header
        epoch, offset = header.partition_leader_epoch, header.base_offset
        if epoch < 0 or epoch == self._latest:
            return
        if epoch < self._latest:
            yield Finding(
                self._path,
                f"the batch at offset {offset} is of epoch {epoch}, after epoch {self._latest}",
                "nothing: batches keep their epochs",
                None,
                offset,
            )
        self._latest = max(self._latest, epoch)
        if self._epochs is None or self._told or self._expected.is_checked_at_start(offset):
            return
        known = self._epochs.epoch_for_offset(offset)
        if known is not None and known != epoch:
            self._add(f"epoch {known} is said to be in force where epoch {epoch} wrote", offset)

    def end(self, end_offset: int) -> Iterator[Finding]:
        if self._epochs is not None and self._latest >= 0 and not self._told:
            beyond = [entry for entry in self._epochs.entries if entry.start_offset > end_offset]
            if beyond:
                self._add(f"{beyond[0]} begins beyond the end {end_offset}", end_offset)
            elif not len(self._epochs) and self._expected.clean:
                self._add("no epochs, although batches have some", None)
        yield from self.findings

    def _add(self, problem: str, offset: int | None) -> None:
        self._told = True
        done = "read from the log again, where it cannot be used"
        self.findings.append(Finding(self._path, problem, done, None, offset))


class SnapshotCheck:
    """The ``.snapshot`` files: each holds the producers as of the offset in its name."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._waiting = sorted(paths.items(), reverse=True)
        self._seen: dict[int, tuple[int, int]] = {}
        self._end = 0
        self._gap_starts: list[int] = []
        self._gap_ends: list[int] = []

    def saw(self, batch: Walked) -> Iterator[Finding]:
        header = batch.header
        if header.base_offset > self._end:
            self._gap_starts.append(self._end)
            self._gap_ends.append(header.base_offset)
        self._end = header.next_offset
        while self._waiting and self._waiting[-1][0] <= header.base_offset:
            yield from self._compare(*self._waiting.pop())
        if header.has_producer_id and not header.is_control:
            self._seen[header.producer_id] = (header.last_offset, header.last_sequence)

    def end(self, end_offset: int) -> Iterator[Finding]:
        while self._waiting:
            offset, path = self._waiting.pop()
            if offset > end_offset:
                problem = f"it is of offset {offset}, the log ends at {end_offset}"
                yield Finding(path, problem, "removed", None, offset)
            else:
                yield from self._compare(offset, path)

    def _compare(self, offset: int, path: str) -> Iterator[Finding]:
        try:
            entries = decode_snapshot(DISK.read(path))
        except CorruptSnapshotError as error:
            done = "removed; an older one and the log replace it"
            yield Finding(path, str(error), done, None, offset)
            return
        for entry in entries:
            problem = self._problem(entry, offset)
            if problem is not None:
                done = "used as it is: retries of this producer may be judged wrongly"
                yield Finding(path, problem, done, None, offset)

    def _problem(self, entry: SnapshotEntry, offset: int) -> str | None:
        if entry.last_offset >= offset:
            return f"producer {entry.producer_id} is at {entry.last_offset}, beyond the snapshot"
        seen = self._seen.get(entry.producer_id)
        if seen is not None and entry.last_offset >= 0 and not self._is_gone(entry.last_offset):
            last_offset, last_sequence = seen
            if (entry.last_offset, entry.last_sequence) != (last_offset, last_sequence):
                return (
                    f"producer {entry.producer_id} is said to be at offset {entry.last_offset}, "
                    f"sequence {entry.last_sequence}; in the log it is at {last_offset}, "
                    f"{last_sequence}"
                )
        return None

    def _is_gone(self, offset: int) -> bool:
        """Returns whether compaction has taken the batch: the producer has written others since
        then.
        """
        place = bisect_right(self._gap_starts, offset) - 1
        return place >= 0 and offset < self._gap_ends[place]

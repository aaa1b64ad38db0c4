"""One partition directory: its segments in order, and what is written beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import NamedTuple
from uuid import UUID

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TOPIC_CONFIG,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.files.topic_config import read_topic_config
from moldau.log.tools.files import DISK, list_files
from moldau.log.tools.verify.batches import Walked
from moldau.log.tools.verify.findings import Expectation, Finding, Level, Totals
from moldau.log.tools.verify.history import EpochCheck, SnapshotCheck
from moldau.log.tools.verify.segment import SegmentCheck

_INDEXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_LEFTOVERS = {
    ".deleted": "waits for its removal",
    ".cleaned": "is of a compaction that was not finished",
    ".swap": "is of a compaction that was finished and not put in place",
}
_WHAT_BECOMES_OF = {
    ".deleted": "removed",
    ".cleaned": "removed",
    ".swap": "put in place of the segments it was made of",
}


class Checked(NamedTuple):
    """What is known of a log once it has been read."""

    start_offset: int
    end_offset: int
    topic_id: UUID | None


class PartitionCheck:
    def __init__(
        self,
        directory: PurePath,
        expected: Expectation,
        totals: Totals,
        advance: Callable[[int], None],
        *,
        deep: bool,
    ) -> None:
        self._advance = advance
        self._directory = directory
        self._expected = expected
        self._totals = totals
        self._deep = deep
        self._bases: list[int] = []
        self._snapshots: dict[int, str] = {}
        self._names = dict.fromkeys(path.name for path in list_files(directory))
        self.result = Checked(0, 0, None)
        """Known after ``run``."""

    def run(self) -> Iterator[Finding]:
        self._totals.partitions += 1
        yield from self._sort()
        end = start = min(self._bases, default=0)
        epochs = EpochCheck(
            str(self._directory),
            exists=LEADER_EPOCH_CHECKPOINT in self._names,
            expected=self._expected,
        )
        snapshots = SnapshotCheck(self._snapshots)

        def saw(batch: Walked) -> Iterator[Finding]:
            yield from epochs.saw(batch)
            yield from snapshots.saw(batch)

        for base_offset in self._bases:
            path = str(self._directory / file_name(base_offset, LOG_SUFFIX))
            if base_offset < end:
                problem = f"the segment begins before {end}, the end of the one before it"
                done = "cut off, if the start reads it"
                yield Finding(path, problem, done, None, base_offset)
            check = SegmentCheck(
                path,
                base_offset,
                is_last=base_offset == self._bases[-1],
                expected=self._expected,
                totals=self._totals,
                deep=self._deep,
            )
            yield from check.run(saw)
            self._advance(check.size)
            end = max(end, check.end_offset)
        yield from epochs.end(end)
        yield from snapshots.end(end)
        topic_id = None
        if PARTITION_METADATA in self._names:
            try:
                topic_id = read_partition_metadata(DISK, str(self._directory))
            except CorruptCheckpointError as error:
                path = str(self._directory / PARTITION_METADATA)
                yield Finding(path, str(error), "written again, with the id the cluster knows")
        yield from self._config(topic_id)
        self.result = Checked(start, end, topic_id)

    def _config(self, topic_id: UUID | None) -> Iterator[Finding]:
        """Look at the copy of the topic's settings."""
        if TOPIC_CONFIG not in self._names:
            return
        path, at_start = str(self._directory / TOPIC_CONFIG), "written again, from the store"
        try:
            kept = read_topic_config(DISK, str(self._directory))
        except CorruptCheckpointError as error:
            yield Finding(path, str(error), at_start)
        else:
            if topic_id not in (None, kept.topic_id):
                yield Finding(path, "is of a topic with another id", at_start)

    def _sort(self) -> Iterator[Finding]:
        """Find the segments; files that belong to none are told."""
        indexes: list[tuple[int, str]] = []
        for name in self._names:
            parsed = parse_file_name(name)
            if parsed is None:
                continue
            base_offset, suffix, mark = parsed
            path = str(self._directory / name)
            if mark:
                yield Finding(path, _LEFTOVERS[mark], _WHAT_BECOMES_OF[mark], level=Level.NOTE)
            elif suffix == LOG_SUFFIX:
                self._bases.append(base_offset)
            elif suffix == SNAPSHOT_SUFFIX:
                self._snapshots[base_offset] = path
            else:
                indexes.append((base_offset, path))
        for base_offset, path in indexes:
            if base_offset not in self._bases:
                yield Finding(path, "belongs to no segment", "removed", None, base_offset)

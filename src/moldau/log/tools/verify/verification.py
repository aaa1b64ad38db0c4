"""Whole log directories: their own files first, then every partition in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Final
from uuid import UUID

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.checkpoints import read_offsets
from moldau.log.files.meta_properties import read_meta_properties
from moldau.log.files.names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    FUTURE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLACED_LOGS,
    STRAY_DIR_SUFFIX,
    parse_dir_name,
)
from moldau.log.files.replaced_logs import read_replaced
from moldau.log.tools.files import DISK, exists, is_in_use, list_directories, list_files
from moldau.log.tools.verify.findings import Expectation, Finding, Level, Totals
from moldau.log.tools.verify.partition import Checked, PartitionCheck
from moldau.model import TopicPartition

_MARKED: Final = {
    FUTURE_DIR_SUFFIX: ("a copy of a move between directories", "the move goes on"),
    STRAY_DIR_SUFFIX: ("set aside: it is of an older topic", "left alone"),
}
_DELETED: Final = ("waits for its removal", "removed")
_CHECKPOINTS: Final = {
    RECOVERY_POINT_CHECKPOINT: "ignored: every log is read from its beginning",
    LOG_START_OFFSET_CHECKPOINT: "ignored: records that were deleted may be back",
    HIGH_WATERMARK_CHECKPOINT: "ignored: the high watermark begins at the log start",
    CLEANER_OFFSET_CHECKPOINT: "ignored: compaction begins again",
}


class DirectoryInUseError(Exception):
    """A broker holds the lock of the directory: what is in it changes all the time."""


class Verification:
    """``run`` yields what is wrong, as it goes; ``totals`` is what it has seen so far."""

    def __init__(self, paths: Iterable[str], *, deep: bool = False) -> None:
        self._paths = [PurePath(path) for path in paths]
        self._deep = deep
        self._homes: dict[TopicPartition, str] = {}
        self._topic_ids: dict[str, tuple[UUID, str]] = {}
        self._advance: Callable[[int], None] = lambda _: None
        self.totals = Totals()

    def run(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Finding]:
        """Raises DirectoryInUseError before anything is read; ``advance`` hears of bytes read."""
        self._advance = advance
        for path in self._paths:
            log_dir = path if parse_dir_name(path.name) is None else path.parent
            if is_in_use(log_dir):
                raise DirectoryInUseError(f"a broker is using {log_dir}: stop it, or verify a copy")
        for path in self._paths:
            for finding in self._verify(path):
                if finding.level is Level.DAMAGE:
                    self.totals.damage += 1
                else:
                    self.totals.notes += 1
                yield finding

    def _verify(self, path: PurePath) -> Iterator[Finding]:
        parsed = parse_dir_name(path.name)
        if parsed is not None and any(file.suffix == LOG_SUFFIX for file in list_files(path)):
            # One partition; what its log directory says of it counts all the same.
            offsets, _ = _read_checkpoints(path.parent)
            clean = exists(path.parent / CLEAN_SHUTDOWN_MARKER)
            yield from self._partition(path, parsed[0], offsets, clean=clean)
            return
        yield from _check_meta_properties(path)
        offsets, findings = _read_checkpoints(path)
        yield from findings
        clean = exists(path / CLEAN_SHUTDOWN_MARKER)
        present: set[TopicPartition] = set()
        for child in list_directories(path):
            named = parse_dir_name(child.name)
            if named is None or named[0].topic == CLUSTER_METADATA_TOPIC:
                continue
            topic_partition, mark = named
            if mark:
                problem, done = _MARKED.get(mark, _DELETED)
                yield Finding(str(child), problem, done, level=Level.NOTE)
                continue
            present.add(topic_partition)
            yield from self._partition(child, topic_partition, offsets, clean=clean)
        yield from _check_absent(path, offsets, present)

    def _partition(
        self,
        path: PurePath,
        topic_partition: TopicPartition,
        offsets: Mapping[str, Mapping[TopicPartition, int]],
        *,
        clean: bool,
    ) -> Iterator[Finding]:
        other = self._homes.setdefault(topic_partition, str(path))
        if other != str(path):
            done = "refused to start, unless one of them is empty or known to be replaced"
            yield Finding(str(path), f"{topic_partition} is in {other}, too", done)
        known = offsets[RECOVERY_POINT_CHECKPOINT].get(topic_partition, 0)
        expected = Expectation(clean, known)
        check = PartitionCheck(path, expected, self.totals, self._advance, deep=self._deep)
        try:
            yield from check.run()
        except OSError as error:
            where = str(error.filename or path)
            yield Finding(where, f"cannot be read: {error}", "the directory goes offline")
            return
        yield from _check_offsets(path, topic_partition, offsets, check.result)
        yield from self._check_topic_id(path, topic_partition.topic, check.result.topic_id)

    def _check_topic_id(
        self, path: PurePath, topic: str, topic_id: UUID | None
    ) -> Iterator[Finding]:
        if topic_id is None:
            return
        first, where = self._topic_ids.setdefault(topic, (topic_id, str(path)))
        if topic_id != first:
            problem = f"its topic id is {topic_id}, that of {where} is {first}"
            done = "set aside, if it is not the id that the cluster knows"
            yield Finding(str(path), problem, done)


def _check_meta_properties(path: PurePath) -> Iterator[Finding]:
    try:
        known = read_meta_properties(DISK, str(path))
    except CorruptCheckpointError as error:
        yield Finding(str(path / META_PROPERTIES), str(error), "refused to start")
        return
    if known is not None and known.cluster_id is None:
        problem = "names no cluster"
        yield Finding(str(path / META_PROPERTIES), problem, "the broker's own is written into it")
    try:
        replaced = read_replaced(DISK, str(path))
    except CorruptCheckpointError as error:
        yield Finding(str(path / REPLACED_LOGS), str(error), "ignored")
        return
    for topic_partition, old in replaced.items():
        problem = f"{topic_partition} here has replaced the one in {old}"
        done = "the old one is removed"
        yield Finding(str(path / REPLACED_LOGS), problem, done, level=Level.NOTE)


def _read_checkpoints(
    path: PurePath,
) -> tuple[dict[str, Mapping[TopicPartition, int]], list[Finding]]:
    offsets: dict[str, Mapping[TopicPartition, int]] = {}
    findings = []
    for name, done in _CHECKPOINTS.items():
        try:
            offsets[name] = read_offsets(DISK, str(path / name))
        except CorruptCheckpointError as error:
            offsets[name] = {}
            findings.append(Finding(str(path / name), str(error), done))
    return offsets, findings


def _check_offsets(
    path: PurePath,
    topic_partition: TopicPartition,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
    log: Checked,
) -> Iterator[Finding]:
    """No checkpoint may know more than there is."""
    consequences = {
        RECOVERY_POINT_CHECKPOINT: "what was durable is gone: the log ends earlier",
        HIGH_WATERMARK_CHECKPOINT: "what was committed is gone: the log ends earlier",
        LOG_START_OFFSET_CHECKPOINT: "everything is dropped: the log begins again at its start",
        CLEANER_OFFSET_CHECKPOINT: "compaction begins again",
    }
    for name, done in consequences.items():
        offset = offsets[name].get(topic_partition)
        if offset is not None and offset > log.end_offset:
            problem = f"{topic_partition} is at {offset}, but its log ends at {log.end_offset}"
            yield Finding(str(path.parent / name), problem, done, None, log.end_offset)


def _check_absent(
    path: PurePath,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
    present: set[TopicPartition],
) -> Iterator[Finding]:
    """The recovery points name every log of a directory: one that is missing was lost."""
    for topic_partition in offsets[RECOVERY_POINT_CHECKPOINT]:
        if topic_partition not in present and topic_partition.topic != CLUSTER_METADATA_TOPIC:
            problem = f"{topic_partition} is named here, but there is no such directory"
            yield Finding(
                str(path / RECOVERY_POINT_CHECKPOINT),
                problem,
                "made anew and empty, if the cluster still has the partition",
                level=Level.NOTE,
            )

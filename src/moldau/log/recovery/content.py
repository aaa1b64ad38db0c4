"""What is in the directory of a partition, on its way to becoming a log."""

from __future__ import annotations

import logging
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.log.errors import CorruptCheckpointError, CorruptIndexError, StorageError
from moldau.log.files.names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.producer_snapshots import ProducerSnapshots, replay
from moldau.log.partition.producer_state import ProducerState, apply_batch
from moldau.log.recovery.leftovers import clean_up
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import HEADER_SIZE, MAGIC, read_header

_log = logging.getLogger(__name__)

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class PartitionContent:
    """Segments, producers and leader epochs, as far as they are known already."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        log_start_offset: int,
        now_ms: int,
        producer_expiration_ms: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.now_ms = now_ms
        self.names = dict.fromkeys(clean_up(disk, directory, disk.listdir(directory)))
        """In the order of their sorting, which is that of the offsets in them."""
        self.segments = self._find_segments(log_start_offset)
        self.producers = ProducerState(log_start_offset)
        self.snapshots = ProducerSnapshots(
            disk, directory, self._offsets_of(SNAPSHOT_SUFFIX), producer_expiration_ms
        )
        self.unsynced: list[str] = []
        """Files that were written to, and have to be synced by the first flush."""
        self.epochs_lost = False
        self.leader_epochs = self._read_epochs()

    def _offsets_of(self, suffix: str) -> list[int]:
        return [
            int(name[:20])
            for name in self.names
            if name.endswith(suffix) and len(name) == 20 + len(suffix)
        ]

    def has_file(self, segment: Segment, suffix: str) -> bool:
        return file_name(segment.base_offset, suffix) in self.names

    # Segments ----------------------------------------------------------------------------------

    def _find_segments(self, log_start_offset: int) -> list[Segment]:
        segments = []
        for base_offset in self._offsets_of(LOG_SUFFIX):
            size = self.disk.size(f"{self.directory}/{file_name(base_offset, LOG_SUFFIX)}")
            segments.append(self._segment(base_offset, size))
        self._remove_orphans({segment.base_offset for segment in segments})
        return segments or [self._create_segment(log_start_offset)]

    def _segment(self, base_offset: int, size: int) -> Segment:
        return Segment.with_config(
            self.disk, self.directory, base_offset, self.config, created_ms=self.now_ms, size=size
        )

    def _create_segment(self, base_offset: int) -> Segment:
        segment = self._segment(base_offset, 0)
        segment.create()
        return segment

    def _remove_orphans(self, bases: set[int]) -> None:
        for name in tuple(self.names):
            parsed = parse_file_name(name)
            if parsed is not None and parsed[1] in _INDEX_SUFFIXES and parsed[0] not in bases:
                _log.warning("%s/%s belongs to no segment, removed", self.directory, name)
                self.disk.remove(f"{self.directory}/{name}")
                del self.names[name]

    def check_format(self, segment: Segment) -> None:
        """Old message formats are refused, rather than taken for damage and cut off."""
        if segment.size >= HEADER_SIZE:
            header = read_header(segment.file.pread(HEADER_SIZE, 0))
            if header.magic in (0, 1) and header.batch_length > 0 and header.crc:
                raise StorageError(
                    f"{segment.path(LOG_SUFFIX)} is in message format v{header.magic}, "
                    f"only v{MAGIC} can be read"
                )

    def begin_again(self, end: int, start: int) -> None:
        """The log ends before its start offset: its files must have been lost."""
        _log.warning(
            "%s: the log ends at %d, before its start %d; it begins again there",
            self.topic_partition,
            end,
            start,
        )
        for segment in self.segments:
            segment.remove()
        self.segments = [self._create_segment(start)]
        self.leader_epochs.clear()
        self.snapshots.truncate(-1)
        self.producers.clear(start)

    # Transactions ------------------------------------------------------------------------------

    def check_transactions(self, segment: Segment) -> None:
        """Open the index of aborted transactions, and write it anew if it is damaged."""
        try:
            _ = segment.txn_index
        except CorruptIndexError as error:
            _log.warning("%s: %s", self.topic_partition, error)
            self._rebuild_transactions(segment)

    def _rebuild_transactions(self, segment: Segment) -> None:
        """From the markers in the segment."""
        state = ProducerState()
        start = self.segments[0].base_offset
        self.snapshots.load_latest(state, start, segment.base_offset, self.now_ms)
        segment.reset_transactions()
        replay(state, self.segments, state.end_offset, segment.base_offset)
        for position, header in iter_file_headers(segment.file, 0, segment.size):
            if header.has_producer_id:
                batch = segment.file.pread(header.size, position) if header.is_control else b""
                aborted = apply_batch(state, header, memoryview(batch))
                if aborted is not None:
                    segment.add_aborted(aborted)
        self.unsynced.append(segment.path(TXN_INDEX_SUFFIX))

    # Leader epochs and topic id ----------------------------------------------------------------

    def _read_epochs(self) -> LeaderEpochs:
        path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        if LEADER_EPOCH_CHECKPOINT in self.names:
            try:
                data = self.disk.read(path)
                if data:  # a crash or a full disk may have left nothing of it
                    return LeaderEpochs.decode(data, path)
            except CorruptCheckpointError as error:
                _log.warning("leader epochs are read from the log again: %s", error)
        self.epochs_lost = True
        return LeaderEpochs()

    def read_epochs_from_log(self, end: int) -> None:
        self.leader_epochs.clear()
        for segment in self.segments:
            for _, header in iter_file_headers(segment.file, 0, segment.size):
                if header.base_offset >= end:
                    return
                if header.partition_leader_epoch > self.leader_epochs.latest_epoch:
                    self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)

    def read_topic_id(self) -> UUID:
        if PARTITION_METADATA not in self.names:
            return NO_TOPIC_ID
        try:
            return read_partition_metadata(self.disk, self.directory)
        except CorruptCheckpointError as error:
            _log.warning("topic id unknown: %s", error)
            return NO_TOPIC_ID

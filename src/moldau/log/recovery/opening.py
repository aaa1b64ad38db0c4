"""Opening the log of a partition.

After a clean stop nothing is checked but the last batch's end; after a crash the log is repaired
(see ``crash``).
"""

from __future__ import annotations

import logging
from typing import Final

from moldau.config.values.topic import TopicConfig
from moldau.log.files.names import INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.content import PartitionContent
from moldau.log.recovery.crash import CrashRecovery
from moldau.log.recovery.stats import RecoveryStats
from moldau.machine.disk import Disk
from moldau.model import TopicPartition
from moldau.records.errors import CorruptRecordError

_log = logging.getLogger(__name__)

DEFAULT_EXPIRATION_MS: Final = 86_400_000


def load_log(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: int,
    clean: bool = False,
    recovery_point: int | None = None,
    log_start_offset: int = 0,
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    stats: RecoveryStats | None = None,
) -> PartitionLog:
    """Open what is in ``directory``; an empty directory gives an empty log.

    ``clean`` says that the log was closed properly. Without a ``recovery_point`` nobody knows how
    much was synced, nor whether the log was ever compacted. Raises OSError if the disk fails.
    """
    content = PartitionContent(
        disk,
        directory,
        topic_partition,
        config,
        log_start_offset=log_start_offset,
        now_ms=now_ms,
        producer_expiration_ms=producer_expiration_ms,
    )
    recovery = None
    end = _open_clean(content) if clean else None
    if end is not None:
        recovery_point = end
    else:
        recovery = CrashRecovery(content, recovery_point, stats or RecoveryStats())
        end = recovery.run()
        recovery_point = min(recovery_point or 0, end)
    if end < log_start_offset:
        content.begin_again(end, log_start_offset)
        end = recovery_point = log_start_offset
    start = max(log_start_offset, content.segments[0].base_offset)
    content.leader_epochs.truncate_from_end(end)
    content.leader_epochs.truncate_from_start(start)
    log = PartitionLog(
        disk,
        topic_partition,
        directory,
        config,
        content.segments,
        leader_epochs=content.leader_epochs,
        producers=content.producers,
        snapshots=content.snapshots,
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=recovery_point,
        now_ms=now_ms,
        topic_id=content.read_topic_id(),
        unsynced=content.unsynced,
    )
    if recovery is not None:
        # The names of what the last process made may not be durable yet.
        log.durability.created(directory.rpartition("/")[0])
        if recovery.kept_gaps_once:
            # After another crash the recovery point has to explain them.
            log.durability.flush(now_ms)
    return log


def _open_clean(content: PartitionContent) -> int | None:
    """Returns the end of a log that was closed properly; None if that cannot be true."""
    segments = content.segments
    for segment in segments:
        if segment.size and not content.has_file(segment, INDEX_SUFFIX):
            content.check_format(segment)
            segment.rebuild_indexes()
        if content.has_file(segment, TXN_INDEX_SUFFIX):
            content.check_transactions(segment)
    try:
        end = segments[-1].next_offset()
    except CorruptRecordError as error:
        _log.warning("%s was not closed cleanly: %s", content.topic_partition, error)
        return None
    if content.epochs_lost and segments[0].size:
        content.read_epochs_from_log(end)
    bases = [segment.base_offset for segment in segments]
    content.snapshots.remove_strays(bases)
    # From the first batch there is, even if it lies before the start offset: the more is known of a
    # producer, the better.
    content.snapshots.rebuild(content.producers, segments, bases[0], end, content.now_ms)
    for segment in segments:
        segment.trust_indexes()
        segment.close()  # opened again when it is used; most of ten thousand are not, for long
    return end

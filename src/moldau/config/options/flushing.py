"""Options: when data is forced to the disk, and recovery after a crash."""

from __future__ import annotations

from moldau.config.declare import CLUSTER_WIDE, integer, long, optional_long
from moldau.config.option import Options
from moldau.config.types import MAX_LONG


class FlushOptions(Options):
    """When data is forced to the disk. A crashed process loses nothing that was acknowledged,
    because the operating system still holds it; these settings bound what a power cut may take.
    """

    title = "Flushing and recovery"

    log_flush_interval_messages = long(
        MAX_LONG,
        "A partition is flushed after this many records; 1 flushes every append.",
        at_least=1,
        update=CLUSTER_WIDE,
    )
    log_flush_interval_ms = optional_long(
        "A record is flushed at the latest after this time. `log.flush.scheduler.interval.ms` "
        "when not set.",
        update=CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms = long(
        MAX_LONG, "How often to look for partitions that are due for a flush."
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000,
        "How often the recovery points are written down: only data past them is checked after a "
        "crash.",
        at_least=0,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000,
        "How often the log start offsets are written down, so that deleted records stay deleted.",
        at_least=0,
    )
    num_recovery_threads_per_data_dir = integer(
        2,
        "How many threads per data directory load partitions at start and flush them at the end.",
        at_least=1,
        update=CLUSTER_WIDE,
    )
    log_initial_task_delay_ms = long(
        30_000,
        "How long after the start the log's periodic work begins.",
        at_least=0,
        internal=True,
    )

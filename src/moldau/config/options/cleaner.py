"""Options: how compacted topics are cleaned."""

from __future__ import annotations

from sys import float_info

from moldau.config.declare import CLUSTER_WIDE, boolean, double, integer, long
from moldau.config.option import Options
from moldau.config.types import MAX_LONG


class CleanerOptions(Options):
    """How compacted topics are cleaned. The cleaners are processes of low priority, which run only
    while there is something to clean.
    """

    title = "Log cleaner"

    log_cleaner_enable = boolean(
        True, "Whether the cleaner runs; without it compacted topics grow without end."
    )
    log_cleaner_threads = integer(
        1, "How many cleaners work side by side.", at_least=0, update=CLUSTER_WIDE
    )
    log_cleaner_backoff_ms = long(
        15_000,
        "How long the cleaner sleeps when there is nothing to clean.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        134_217_728,
        "The memory for remembering keys, over all cleaners; more than 1 MiB each.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        524_288,
        "The memory for reading and writing, over all cleaners.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = double(
        0.9,
        "How full the buffer of keys may get: fuller cleans more at a time with more collisions.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = double(
        float_info.max,
        "How many bytes per second the cleaners read and write together, on average.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        "The share of a log that must be uncleaned before cleaning it is worth the work.",
        at_least=0,
        at_most=1,
        update=CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = long(
        86_400_000,
        "How long a deletion mark (a record without a value) is kept in a compacted topic, so "
        "that every reader has the time to see it.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms = long(
        0, "A record stays uncompacted for at least this long.", at_least=0, update=CLUSTER_WIDE
    )
    log_cleaner_max_compaction_lag_ms = long(
        MAX_LONG,
        "A record waits for compaction at most this long.",
        at_least=1,
        update=CLUSTER_WIDE,
    )

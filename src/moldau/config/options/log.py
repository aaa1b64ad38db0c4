"""Options: where the log lives on disk, when it is flushed, and the defaults of topics."""

from __future__ import annotations

from moldau.config.declare import (
    CLUSTER_WIDE,
    PER_BROKER,
    boolean,
    integer,
    long,
    names,
    optional_integer,
    optional_long,
    optional_names,
    string,
)
from moldau.config.option import Options
from moldau.config.options.compression import CompressionLevels
from moldau.config.types import MAX_LONG
from moldau.config.validators import EachOf, OneOf


class LogOptions(CompressionLevels):
    """Where records are kept and for how long. Most of these are defaults: a topic's own setting,
    named in [Topic settings](#topic-settings), wins.
    """

    title = "Log"

    log_dir = names(
        ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
        "The directory for partition data. `log.dirs` wins when both are set.",
    )
    log_dirs = optional_names(
        "Directories for partition data, between commas; `log.dir` when not set. New partitions "
        "go to the directory that holds the fewest, and among those to the disk with most room."
    )
    log_dir_failure_timeout_ms = long(
        30_000,
        "How long a broker may fail to report a broken directory before it stops.",
        at_least=1,
    )
    cordoned_log_dirs = names(
        (),
        "Directories of `log.dirs` that get no new partitions, to be emptied or kept as they are "
        "(KIP-1066); `*` stands for all of them. A broker whose directories are all cordoned gets "
        "no new replicas.",
        update=PER_BROKER,
    )
    stray_topics_policy = string(
        "auto",
        "What happens to partitions in the log directories that the embedded coordination store "
        "does not know: `auto` takes their topics up again, with their ids and settings, if the "
        "store shows that it was damaged or lost, and leaves them alone otherwise; `adopt` always "
        "takes them up; `refuse` never does. What is left alone is named in the log, and its name "
        "cannot be used. Apache Kafka has no such setting.",
        allowed=OneOf("auto", "adopt", "refuse"),
        listed=False,
    )
    log_segment_bytes = integer(
        1_073_741_824,
        "A segment file that would grow beyond this is closed and a new one begun.",
        at_least=1_048_576,
        update=CLUSTER_WIDE,
    )
    log_roll_ms = optional_long(
        "A segment older than this is closed even if it is not full. `log.roll.hours` when not "
        "set.",
        update=CLUSTER_WIDE,
    )
    log_roll_hours = integer(168, "`log.roll.ms` in hours; `log.roll.ms` wins.", at_least=1)
    log_roll_jitter_ms = optional_long(
        "A random time up to this is taken off `log.roll.ms`, so that many partitions do not roll "
        "at once. `log.roll.jitter.hours` when not set.",
        update=CLUSTER_WIDE,
    )
    log_roll_jitter_hours = integer(
        0, "`log.roll.jitter.ms` in hours; `log.roll.jitter.ms` wins.", at_least=0
    )
    log_retention_ms = optional_long(
        "Segments whose newest record is older than this are deleted; -1 keeps them forever. Wins "
        "over `log.retention.minutes`, which wins over `log.retention.hours`.",
        update=CLUSTER_WIDE,
    )
    log_retention_minutes = optional_integer("`log.retention.ms` in minutes.")
    log_retention_hours = integer(168, "`log.retention.ms` in hours.")
    log_retention_bytes = long(
        -1,
        "Old segments are deleted while a partition is larger than this; -1 sets no limit.",
        update=CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(
        300_000, "How often to look for segments that retention may delete.", at_least=1
    )
    log_cleanup_policy = names(
        ("delete",),
        "What happens to old data: `delete` drops old segments, `compact` keeps the latest record "
        "of each key, both together do both, and an empty list keeps everything.",
        allowed=EachOf("compact", "delete"),
        update=CLUSTER_WIDE,
    )
    log_segment_delete_delay_ms = long(
        60_000,
        "How long a deleted segment or partition keeps its (renamed) files before they are "
        "removed.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_index_size_max_bytes = integer(
        10_485_760,
        "The size of an offset index; a segment whose index is full is rolled.",
        at_least=4,
        update=CLUSTER_WIDE,
    )
    log_index_interval_bytes = integer(
        4096,
        "One index entry is written per this many bytes of log: smaller finds offsets faster, "
        "larger keeps indexes small.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_preallocate = boolean(
        False, "Whether a new segment file gets its full size on disk at once.", update=CLUSTER_WIDE
    )
    message_max_bytes = integer(
        1_048_588,
        "The largest record batch that is accepted, as it arrives, compressed or not.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_type = string(
        "CreateTime",
        "Whether records keep the producer's time or get the time at which they were appended.",
        allowed=OneOf("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = long(
        MAX_LONG,
        "How far a producer's time may lie in the past before the record is refused.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000,
        "How far a producer's time may lie in the future before the record is refused.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    compression_type = string(
        "producer",
        "The compression in which batches are stored. `producer` stores them as they come, which "
        "costs nothing; any other value recompresses batches that differ.",
        allowed=OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=CLUSTER_WIDE,
    )
    log_local_retention_ms = long(
        -2,
        "Tiered storage only: how long the local copy is kept.",
        at_least=-2,
        update=CLUSTER_WIDE,
        inert=True,
    )
    log_local_retention_bytes = long(
        -2,
        "Tiered storage only: how large the local copy may grow.",
        at_least=-2,
        update=CLUSTER_WIDE,
        inert=True,
    )


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

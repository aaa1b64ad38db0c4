"""Options of the log on disk: where it lives, and the defaults that topics take from the broker."""

from __future__ import annotations

from sys import float_info
from typing import Final

from moldau.config.option import MAX_LONG, Area, Update
from moldau.config.validators import Between, OneOf, SomeOf

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
SEGMENT_BYTES_MIN: Final = 1_048_576

LOG: Final = Area(
    "Log",
    "Where records are kept and for how long. Most of these are defaults: a topic's own setting, "
    "named in [Topic settings](#topic-settings), wins.",
)

LOG_DIR = LOG.names(
    "log.dir",
    ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
    "The directory for partition data. `log.dirs` wins when both are set.",
)
LOG_DIRS = LOG.optional_names(
    "log.dirs",
    "Directories for partition data, between commas; `log.dir` when not set. New partitions go to "
    "the directory that holds the fewest, and among those to the disk with most room.",
)
LOG_DIR_FAILURE_TIMEOUT_MS = LOG.long(
    "log.dir.failure.timeout.ms",
    30_000,
    "How long a broker may fail to report a broken directory before it stops.",
    at_least=1,
)
CORDONED_LOG_DIRS = LOG.names(
    "cordoned.log.dirs",
    (),
    "Directories of `log.dirs` that get no new partitions, to be emptied or kept as they are "
    "(KIP-1066); `*` stands for all of them. A broker whose directories are all cordoned gets no "
    "new replicas.",
    update=Update.PER_BROKER,
)
LOG_SEGMENT_BYTES = LOG.integer(
    "log.segment.bytes",
    1_073_741_824,
    "A segment file that would grow beyond this is closed and a new one begun.",
    at_least=SEGMENT_BYTES_MIN,
    update=Update.CLUSTER_WIDE,
)
LOG_ROLL_MS = LOG.optional_long(
    "log.roll.ms",
    "A segment older than this is closed even if it is not full. `log.roll.hours` when not set.",
    update=Update.CLUSTER_WIDE,
)
LOG_ROLL_HOURS = LOG.integer(
    "log.roll.hours",
    168,
    "`log.roll.ms` in hours; `log.roll.ms` wins.",
    at_least=1,
)
LOG_ROLL_JITTER_MS = LOG.optional_long(
    "log.roll.jitter.ms",
    "A random time up to this is taken off `log.roll.ms`, so that many partitions do not roll at "
    "once. `log.roll.jitter.hours` when not set.",
    update=Update.CLUSTER_WIDE,
)
LOG_ROLL_JITTER_HOURS = LOG.integer(
    "log.roll.jitter.hours",
    0,
    "`log.roll.jitter.ms` in hours; `log.roll.jitter.ms` wins.",
    at_least=0,
)
LOG_RETENTION_MS = LOG.optional_long(
    "log.retention.ms",
    "Segments whose newest record is older than this are deleted; -1 keeps them forever. Wins "
    "over `log.retention.minutes`, which wins over `log.retention.hours`.",
    update=Update.CLUSTER_WIDE,
)
LOG_RETENTION_MINUTES = LOG.optional_integer(
    "log.retention.minutes",
    "`log.retention.ms` in minutes.",
)
LOG_RETENTION_HOURS = LOG.integer(
    "log.retention.hours",
    168,
    "`log.retention.ms` in hours.",
)
LOG_RETENTION_BYTES = LOG.long(
    "log.retention.bytes",
    -1,
    "Old segments are deleted while a partition is larger than this; -1 sets no limit.",
    update=Update.CLUSTER_WIDE,
)
LOG_RETENTION_CHECK_INTERVAL_MS = LOG.long(
    "log.retention.check.interval.ms",
    300_000,
    "How often to look for segments that retention may delete.",
    at_least=1,
)
LOG_CLEANUP_POLICY = LOG.names(
    "log.cleanup.policy",
    ("delete",),
    "What happens to old data: `delete` drops old segments, `compact` keeps the latest record of "
    "each key, both together do both, and an empty list keeps everything.",
    allowed=SomeOf("compact", "delete"),
    update=Update.CLUSTER_WIDE,
)
LOG_SEGMENT_DELETE_DELAY_MS = LOG.long(
    "log.segment.delete.delay.ms",
    60_000,
    "How long a deleted segment or partition keeps its (renamed) files before they are removed.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_INDEX_SIZE_MAX_BYTES = LOG.integer(
    "log.index.size.max.bytes",
    10_485_760,
    "The size of an offset index; a segment whose index is full is rolled.",
    at_least=4,
    update=Update.CLUSTER_WIDE,
)
LOG_INDEX_INTERVAL_BYTES = LOG.integer(
    "log.index.interval.bytes",
    4096,
    "One index entry is written per this many bytes of log: smaller finds offsets faster, larger "
    "keeps indexes small.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_PREALLOCATE = LOG.boolean(
    "log.preallocate",
    False,
    "Whether a new segment file gets its full size on disk at once.",
    update=Update.CLUSTER_WIDE,
)
MESSAGE_MAX_BYTES = LOG.integer(
    "message.max.bytes",
    1_048_588,
    "The largest record batch that is accepted, as it arrives, compressed or not.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_TYPE = LOG.string(
    "log.message.timestamp.type",
    "CreateTime",
    "Whether records keep the producer's time or get the time at which they were appended.",
    allowed=OneOf(*TIMESTAMP_TYPES),
    update=Update.CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = LOG.long(
    "log.message.timestamp.before.max.ms",
    MAX_LONG,
    "How far a producer's time may lie in the past before the record is refused.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = LOG.long(
    "log.message.timestamp.after.max.ms",
    3_600_000,
    "How far a producer's time may lie in the future before the record is refused.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
COMPRESSION_TYPE = LOG.string(
    "compression.type",
    "producer",
    "The compression in which batches are stored. `producer` stores them as they come, which "
    "costs nothing; any other value recompresses batches that differ.",
    allowed=OneOf(*COMPRESSION_TYPES),
    update=Update.CLUSTER_WIDE,
)
COMPRESSION_GZIP_LEVEL = LOG.integer(
    "compression.gzip.level",
    -1,
    "The level when the broker compresses with gzip; -1 is the library's own choice.",
    allowed=Between(1, 9, also=-1),
    update=Update.CLUSTER_WIDE,
)
COMPRESSION_LZ4_LEVEL = LOG.integer(
    "compression.lz4.level",
    9,
    "The level when the broker compresses with lz4.",
    at_least=1,
    at_most=17,
    update=Update.CLUSTER_WIDE,
)
COMPRESSION_ZSTD_LEVEL = LOG.integer(
    "compression.zstd.level",
    3,
    "The level when the broker compresses with zstd.",
    at_least=-131_072,
    at_most=22,
    update=Update.CLUSTER_WIDE,
)
LOG_LOCAL_RETENTION_MS = LOG.long(
    "log.local.retention.ms",
    -2,
    "Tiered storage only: how long the local copy is kept.",
    at_least=-2,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
LOG_LOCAL_RETENTION_BYTES = LOG.long(
    "log.local.retention.bytes",
    -2,
    "Tiered storage only: how large the local copy may grow.",
    at_least=-2,
    update=Update.CLUSTER_WIDE,
    inert=True,
)

FLUSHING: Final = Area(
    "Flushing and recovery",
    "When data is forced to the disk. A crashed process loses nothing that was acknowledged, "
    "because the operating system still holds it; these settings bound what a power cut may take.",
)

LOG_FLUSH_INTERVAL_MESSAGES = FLUSHING.long(
    "log.flush.interval.messages",
    MAX_LONG,
    "A partition is flushed after this many records; 1 flushes every append.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)
LOG_FLUSH_INTERVAL_MS = FLUSHING.optional_long(
    "log.flush.interval.ms",
    "A record is flushed at the latest after this time. `log.flush.scheduler.interval.ms` when "
    "not set.",
    update=Update.CLUSTER_WIDE,
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = FLUSHING.long(
    "log.flush.scheduler.interval.ms",
    MAX_LONG,
    "How often to look for partitions that are due for a flush.",
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = FLUSHING.integer(
    "log.flush.offset.checkpoint.interval.ms",
    60_000,
    "How often the recovery points are written down: only data past them is checked after a crash.",
    at_least=0,
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = FLUSHING.integer(
    "log.flush.start.offset.checkpoint.interval.ms",
    60_000,
    "How often the log start offsets are written down, so that deleted records stay deleted.",
    at_least=0,
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = FLUSHING.integer(
    "num.recovery.threads.per.data.dir",
    2,
    "How many threads per data directory load partitions at start and flush them at the end.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)
LOG_INITIAL_TASK_DELAY_MS = FLUSHING.long(
    "log.initial.task.delay.ms",
    30_000,
    "How long after the start the log's periodic work begins.",
    at_least=0,
    internal=True,
)

CLEANER: Final = Area(
    "Log cleaner",
    "How compacted topics are cleaned. The cleaners are processes of low priority, which run only "
    "while there is something to clean.",
)

LOG_CLEANER_ENABLE = CLEANER.boolean(
    "log.cleaner.enable",
    True,
    "Whether the cleaner runs; without it compacted topics grow without end.",
)
LOG_CLEANER_THREADS = CLEANER.integer(
    "log.cleaner.threads",
    1,
    "How many cleaners work side by side.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_BACKOFF_MS = CLEANER.long(
    "log.cleaner.backoff.ms",
    15_000,
    "How long the cleaner sleeps when there is nothing to clean.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = CLEANER.long(
    "log.cleaner.dedupe.buffer.size",
    134_217_728,
    "The memory for remembering keys, over all cleaners; more than 1 MiB each.",
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_IO_BUFFER_SIZE = CLEANER.integer(
    "log.cleaner.io.buffer.size",
    524_288,
    "The memory for reading and writing, over all cleaners.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = CLEANER.double(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    "How full the buffer of keys may get: fuller cleans more at a time with more collisions.",
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = CLEANER.double(
    "log.cleaner.io.max.bytes.per.second",
    float_info.max,
    "How many bytes per second the cleaners read and write together, on average.",
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = CLEANER.double(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    "The share of a log that must be uncleaned before cleaning it is worth the work.",
    at_least=0,
    at_most=1,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_DELETE_RETENTION_MS = CLEANER.long(
    "log.cleaner.delete.retention.ms",
    86_400_000,
    "How long a deletion mark (a record without a value) is kept in a compacted topic, so that "
    "every reader has the time to see it.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = CLEANER.long(
    "log.cleaner.min.compaction.lag.ms",
    0,
    "A record stays uncompacted for at least this long.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = CLEANER.long(
    "log.cleaner.max.compaction.lag.ms",
    MAX_LONG,
    "A record waits for compaction at most this long.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)

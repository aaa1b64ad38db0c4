"""Options of one topic, and the broker settings from which each takes its default."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.config import log_options as log
from moldau.config import replication_options as replication
from moldau.config.option import MAX_LONG, AnyOption, Area
from moldau.config.validators import Between, OneOf, SomeOf, ThrottledReplicas

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

TOPIC: Final = Area(
    "Topic settings",
    "Settings of one topic. They are given when the topic is created, or later with `moldau "
    "config alter` and any Kafka tool. A topic without its own setting follows the broker setting "
    "named in the table, including changes to it while brokers run.",
)

CLEANUP_POLICY = TOPIC.names(
    "cleanup.policy",
    ("delete",),
    "`delete` drops old segments, `compact` keeps the latest record of each key, both together do "
    "both, and an empty list keeps everything.",
    allowed=SomeOf("compact", "delete"),
)
TOPIC_COMPRESSION_TYPE = TOPIC.string(
    "compression.type",
    "producer",
    "The compression in which batches are stored; `producer` stores them as they come.",
    allowed=OneOf(*log.COMPRESSION_TYPES),
)
TOPIC_COMPRESSION_GZIP_LEVEL = TOPIC.integer(
    "compression.gzip.level",
    -1,
    "The level when `compression.type` is gzip.",
    allowed=Between(1, 9, also=-1),
)
TOPIC_COMPRESSION_LZ4_LEVEL = TOPIC.integer(
    "compression.lz4.level",
    9,
    "The level when `compression.type` is lz4.",
    at_least=1,
    at_most=17,
)
TOPIC_COMPRESSION_ZSTD_LEVEL = TOPIC.integer(
    "compression.zstd.level",
    3,
    "The level when `compression.type` is zstd.",
    at_least=-131_072,
    at_most=22,
)
DELETE_RETENTION_MS = TOPIC.long(
    "delete.retention.ms",
    86_400_000,
    "How long deletion marks stay in a compacted topic.",
    at_least=0,
)
FILE_DELETE_DELAY_MS = TOPIC.long(
    "file.delete.delay.ms",
    60_000,
    "How long a deleted segment keeps its (renamed) files before they are removed.",
    at_least=0,
)
FLUSH_MESSAGES = TOPIC.long(
    "flush.messages",
    MAX_LONG,
    "Data is forced to disk after this many records; 1 flushes every append.",
    at_least=1,
)
FLUSH_MS = TOPIC.long(
    "flush.ms",
    MAX_LONG,
    "Data is forced to disk at the latest after this time.",
    at_least=0,
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = TOPIC.names(
    "follower.replication.throttled.replicas",
    (),
    "Replicas whose fetching is throttled, as `partition:broker` pairs, or `*` for all.",
    allowed=ThrottledReplicas(),
)
INDEX_INTERVAL_BYTES = TOPIC.integer(
    "index.interval.bytes",
    4096,
    "One index entry is written per this many bytes of log.",
    at_least=0,
)
INTERNAL_SEGMENT_BYTES = TOPIC.optional_integer(
    "internal.segment.bytes",
    "Takes the place of `segment.bytes` without its lower limit, for tests that need many small "
    "segments.",
    at_least=1,
    internal=True,
)
LEADER_REPLICATION_THROTTLED_REPLICAS = TOPIC.names(
    "leader.replication.throttled.replicas",
    (),
    "Replicas to which sending is throttled, as `partition:broker` pairs, or `*` for all.",
    allowed=ThrottledReplicas(),
)
LOCAL_RETENTION_BYTES = TOPIC.long(
    "local.retention.bytes",
    -2,
    "Tiered storage only: how large the local copy may grow.",
    at_least=-2,
    inert=True,
)
LOCAL_RETENTION_MS = TOPIC.long(
    "local.retention.ms",
    -2,
    "Tiered storage only: how long the local copy is kept.",
    at_least=-2,
    inert=True,
)
MAX_COMPACTION_LAG_MS = TOPIC.long(
    "max.compaction.lag.ms",
    MAX_LONG,
    "A record waits for compaction at most this long.",
    at_least=1,
)
MAX_MESSAGE_BYTES = TOPIC.integer(
    "max.message.bytes",
    1_048_588,
    "The largest record batch that is accepted, as it arrives, compressed or not.",
    at_least=0,
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = TOPIC.long(
    "message.timestamp.after.max.ms",
    3_600_000,
    "How far a producer's time may lie in the future before the record is refused.",
    at_least=0,
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = TOPIC.long(
    "message.timestamp.before.max.ms",
    MAX_LONG,
    "How far a producer's time may lie in the past before the record is refused.",
    at_least=0,
)
MESSAGE_TIMESTAMP_TYPE = TOPIC.string(
    "message.timestamp.type",
    "CreateTime",
    "Whether records keep the producer's time or get the time at which they were appended.",
    allowed=OneOf(*log.TIMESTAMP_TYPES),
)
MIN_CLEANABLE_DIRTY_RATIO = TOPIC.double(
    "min.cleanable.dirty.ratio",
    0.5,
    "The share of a compacted log that must be uncleaned before cleaning it is worth the work.",
    at_least=0,
    at_most=1,
)
MIN_COMPACTION_LAG_MS = TOPIC.long(
    "min.compaction.lag.ms",
    0,
    "A record stays uncompacted for at least this long; at most `max.compaction.lag.ms`.",
    at_least=0,
)
TOPIC_MIN_INSYNC_REPLICAS = TOPIC.integer(
    "min.insync.replicas",
    1,
    "How many in-sync replicas a write with acks=all needs.",
    at_least=1,
)
PREALLOCATE = TOPIC.boolean(
    "preallocate",
    False,
    "Whether a new segment file gets its full size on disk at once.",
)
REMOTE_LOG_COPY_DISABLE = TOPIC.boolean(
    "remote.log.copy.disable",
    False,
    "Tiered storage only: whether to stop copying segments away.",
    inert=True,
)
REMOTE_LOG_DELETE_ON_DISABLE = TOPIC.boolean(
    "remote.log.delete.on.disable",
    False,
    "Tiered storage only: whether the remote copy is deleted when tiering ends.",
    inert=True,
)
REMOTE_STORAGE_ENABLE = TOPIC.boolean(
    "remote.storage.enable",
    False,
    "Whether the topic uses tiered storage, which Moldau does not have: `true` is refused.",
)
RETENTION_BYTES = TOPIC.long(
    "retention.bytes",
    -1,
    "Old segments are deleted while a partition is larger than this; -1 sets no limit.",
)
RETENTION_MS = TOPIC.long(
    "retention.ms",
    604_800_000,
    "Segments whose newest record is older than this are deleted; -1 keeps them forever.",
    at_least=-1,
)
SEGMENT_BYTES = TOPIC.integer(
    "segment.bytes",
    1_073_741_824,
    "A segment file that would grow beyond this is closed and a new one begun.",
    at_least=log.SEGMENT_BYTES_MIN,
)
SEGMENT_INDEX_BYTES = TOPIC.integer(
    "segment.index.bytes",
    10_485_760,
    "The size of an offset index; a segment whose index is full is rolled.",
    at_least=4,
)
SEGMENT_JITTER_MS = TOPIC.long(
    "segment.jitter.ms",
    0,
    "A random time up to this is taken off `segment.ms`, so that many partitions do not roll at "
    "once.",
    at_least=0,
)
SEGMENT_MS = TOPIC.long(
    "segment.ms",
    604_800_000,
    "A segment older than this is closed even if it is not full.",
    at_least=1,
)
TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = TOPIC.boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica that is not in sync may become leader when no other is left, which can "
    "lose acknowledged records.",
)


class Synonym(NamedTuple):
    """A broker setting that stands in for a topic setting, in a unit of its own."""

    option: AnyOption
    factor: int = 1


TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": (Synonym(log.LOG_CLEANUP_POLICY),),
    "compression.gzip.level": (Synonym(log.COMPRESSION_GZIP_LEVEL),),
    "compression.lz4.level": (Synonym(log.COMPRESSION_LZ4_LEVEL),),
    "compression.type": (Synonym(log.COMPRESSION_TYPE),),
    "compression.zstd.level": (Synonym(log.COMPRESSION_ZSTD_LEVEL),),
    "delete.retention.ms": (Synonym(log.LOG_CLEANER_DELETE_RETENTION_MS),),
    "file.delete.delay.ms": (Synonym(log.LOG_SEGMENT_DELETE_DELAY_MS),),
    "flush.messages": (Synonym(log.LOG_FLUSH_INTERVAL_MESSAGES),),
    "flush.ms": (
        Synonym(log.LOG_FLUSH_INTERVAL_MS),
        Synonym(log.LOG_FLUSH_SCHEDULER_INTERVAL_MS),
    ),
    "index.interval.bytes": (Synonym(log.LOG_INDEX_INTERVAL_BYTES),),
    "local.retention.bytes": (Synonym(log.LOG_LOCAL_RETENTION_BYTES),),
    "local.retention.ms": (Synonym(log.LOG_LOCAL_RETENTION_MS),),
    "max.compaction.lag.ms": (Synonym(log.LOG_CLEANER_MAX_COMPACTION_LAG_MS),),
    "max.message.bytes": (Synonym(log.MESSAGE_MAX_BYTES),),
    "message.timestamp.after.max.ms": (Synonym(log.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS),),
    "message.timestamp.before.max.ms": (Synonym(log.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS),),
    "message.timestamp.type": (Synonym(log.LOG_MESSAGE_TIMESTAMP_TYPE),),
    "min.cleanable.dirty.ratio": (Synonym(log.LOG_CLEANER_MIN_CLEANABLE_RATIO),),
    "min.compaction.lag.ms": (Synonym(log.LOG_CLEANER_MIN_COMPACTION_LAG_MS),),
    "min.insync.replicas": (Synonym(replication.MIN_INSYNC_REPLICAS),),
    "preallocate": (Synonym(log.LOG_PREALLOCATE),),
    "retention.bytes": (Synonym(log.LOG_RETENTION_BYTES),),
    "retention.ms": (
        Synonym(log.LOG_RETENTION_MS),
        Synonym(log.LOG_RETENTION_MINUTES, MINUTE_MS),
        Synonym(log.LOG_RETENTION_HOURS, HOUR_MS),
    ),
    "segment.bytes": (Synonym(log.LOG_SEGMENT_BYTES),),
    "segment.index.bytes": (Synonym(log.LOG_INDEX_SIZE_MAX_BYTES),),
    "segment.jitter.ms": (
        Synonym(log.LOG_ROLL_JITTER_MS),
        Synonym(log.LOG_ROLL_JITTER_HOURS, HOUR_MS),
    ),
    "segment.ms": (Synonym(log.LOG_ROLL_MS), Synonym(log.LOG_ROLL_HOURS, HOUR_MS)),
    "unclean.leader.election.enable": (Synonym(replication.UNCLEAN_LEADER_ELECTION_ENABLE),),
}
"""Topic setting to the broker settings behind it, the winning one first."""

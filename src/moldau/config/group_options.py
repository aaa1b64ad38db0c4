"""Options of consumer groups and their offsets."""

from __future__ import annotations

from typing import Final

from moldau.config.option import MAX_INT, Area, Update
from moldau.config.validators import OneOf, SomeOf

GROUPS: Final = Area(
    "Consumer groups",
    "Group membership and committed offsets.",
)

GROUP_MIN_SESSION_TIMEOUT_MS = GROUPS.integer(
    "group.min.session.timeout.ms",
    6000,
    "The shortest session timeout that a member of a classic group may ask for.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = GROUPS.integer(
    "group.max.session.timeout.ms",
    1_800_000,
    "The longest session timeout that a member of a classic group may ask for.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = GROUPS.integer(
    "group.initial.rebalance.delay.ms",
    3000,
    "How long an empty classic group waits for more members before its first assignment.",
)
GROUP_MAX_SIZE = GROUPS.integer(
    "group.max.size",
    MAX_INT,
    "How many members a classic group may have.",
    at_least=1,
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS = GROUPS.names(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer", "streams"),
    "Which group protocols the coordinator speaks.",
    allowed=SomeOf("consumer", "classic", "share", "streams"),
)
GROUP_COORDINATOR_NEW_ENABLE = GROUPS.boolean(
    "group.coordinator.new.enable",
    True,
    "Which of two coordinators Kafka 3.x used; there is one here.",
    inert=True,
    listed=False,
)
GROUP_COORDINATOR_THREADS = GROUPS.integer(
    "group.coordinator.threads",
    4,
    "How many threads Kafka's coordinator has. The event loop does its work here.",
    at_least=1,
    inert=True,
)
GROUP_COORDINATOR_BACKGROUND_THREADS = GROUPS.integer(
    "group.coordinator.background.threads",
    2,
    "How many background threads Kafka's coordinator has. The event loop does its work here.",
    at_least=1,
    inert=True,
)
GROUP_COORDINATOR_APPEND_LINGER_MS = GROUPS.integer(
    "group.coordinator.append.linger.ms",
    -1,
    "How long the coordinator gathers changes before it writes them as one batch; -1 lets it "
    "choose.",
    at_least=-1,
)
GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES = GROUPS.integer(
    "group.coordinator.cached.buffer.max.bytes",
    1_048_588,
    "The largest write buffer that Kafka's coordinator keeps for later.",
    at_least=524_288,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = GROUPS.integer(
    "group.consumer.session.timeout.ms",
    45_000,
    "How long a member under the consumer protocol may be silent before it is removed.",
    at_least=1,
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = GROUPS.integer(
    "group.consumer.min.session.timeout.ms",
    45_000,
    "The shortest session timeout that a group may be given for itself.",
    at_least=1,
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = GROUPS.integer(
    "group.consumer.max.session.timeout.ms",
    60_000,
    "The longest session timeout that a group may be given for itself.",
    at_least=1,
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.heartbeat.interval.ms",
    5000,
    "How often members under the consumer protocol are told to report.",
    at_least=1,
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.min.heartbeat.interval.ms",
    5000,
    "The shortest heartbeat interval that a group may be given for itself.",
    at_least=1,
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.max.heartbeat.interval.ms",
    15_000,
    "The longest heartbeat interval that a group may be given for itself.",
    at_least=1,
)
GROUP_CONSUMER_MAX_SIZE = GROUPS.integer(
    "group.consumer.max.size",
    MAX_INT,
    "How many members a group under the consumer protocol may have.",
    at_least=1,
)
GROUP_CONSUMER_ASSIGNORS = GROUPS.names(
    "group.consumer.assignors",
    ("uniform", "range"),
    "The ways in which the coordinator can divide partitions; the first is used when members do "
    "not ask for one.",
)
GROUP_CONSUMER_MIGRATION_POLICY = GROUPS.string(
    "group.consumer.migration.policy",
    "bidirectional",
    "Whether a group may move between the classic and the consumer protocol while it runs.",
    allowed=OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", any_case=True),
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.assignment.interval.ms",
    1000,
    "The time between two assignments of one group.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.min.assignment.interval.ms",
    0,
    "The shortest assignment interval that a group may be given for itself.",
    at_least=0,
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = GROUPS.integer(
    "group.consumer.max.assignment.interval.ms",
    15_000,
    "The longest assignment interval that a group may be given for itself.",
    at_least=0,
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = GROUPS.integer(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    "How often a subscription by pattern is matched against the topics again.",
    at_least=10_000,
    internal=True,
)
OFFSET_METADATA_MAX_BYTES = GROUPS.integer(
    "offset.metadata.max.bytes",
    4096,
    "How long the note may be that a consumer leaves with a committed offset.",
)
OFFSETS_COMMIT_TIMEOUT_MS = GROUPS.integer(
    "offsets.commit.timeout.ms",
    5000,
    "How long an offset commit waits for the replicas of the offsets topic.",
    at_least=1,
)
OFFSETS_COMMIT_REQUIRED_ACKS = GROUPS.short(
    "offsets.commit.required.acks",
    -1,
    "How many acknowledgements an offset commit needs; -1, all in-sync replicas, is the only safe "
    "one.",
    listed=False,
)
OFFSETS_LOAD_BUFFER_SIZE = GROUPS.integer(
    "offsets.load.buffer.size",
    5_242_880,
    "How much is read at a time when a coordinator loads the offsets topic.",
    at_least=1,
)
OFFSETS_RETENTION_MINUTES = GROUPS.integer(
    "offsets.retention.minutes",
    10_080,
    "How long committed offsets outlive the last member of their group.",
    at_least=1,
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = GROUPS.long(
    "offsets.retention.check.interval.ms",
    600_000,
    "How often to look for expired offsets.",
    at_least=1,
)
OFFSETS_TOPIC_NUM_PARTITIONS = GROUPS.integer(
    "offsets.topic.num.partitions",
    50,
    "How many partitions the offsets topic is created with. It must not change afterwards.",
    at_least=1,
)
OFFSETS_TOPIC_REPLICATION_FACTOR = GROUPS.short(
    "offsets.topic.replication.factor",
    3,
    "How many replicas the offsets topic is created with. Its creation waits for that many "
    "brokers if the setting is given; otherwise it makes do with those that are there.",
    at_least=1,
)
OFFSETS_TOPIC_SEGMENT_BYTES = GROUPS.integer(
    "offsets.topic.segment.bytes",
    104_857_600,
    "The segment size of the offsets topic; small segments load and compact faster.",
    at_least=1,
)
OFFSETS_TOPIC_COMPRESSION_CODEC = GROUPS.integer(
    "offsets.topic.compression.codec",
    0,
    "The compression of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)

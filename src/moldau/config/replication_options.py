"""Options of replication, leader election and balancing."""

from __future__ import annotations

from typing import Final

from moldau.config.option import MAX_LONG, Area, Update

REPLICATION: Final = Area(
    "Replication",
    "How replicas follow their leader and when a write counts as safe. With one node the settings "
    "of followers have nothing to act on yet.",
)

MIN_INSYNC_REPLICAS = REPLICATION.integer(
    "min.insync.replicas",
    1,
    "How many in-sync replicas a write with acks=all needs; with fewer it is refused rather than "
    "acknowledged too lightly.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_ENABLE = REPLICATION.boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica that is not in sync may become leader when no other is left, which can "
    "lose acknowledged records.",
    update=Update.CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = REPLICATION.long(
    "unclean.leader.election.interval.ms",
    300_000,
    "How often to look for partitions that need such an election.",
    at_least=1,
    internal=True,
)
REPLICA_LAG_TIME_MAX_MS = REPLICATION.long(
    "replica.lag.time.max.ms",
    30_000,
    "A follower that has not caught up for this long leaves the in-sync replicas.",
)
REPLICA_FETCH_MAX_BYTES = REPLICATION.integer(
    "replica.fetch.max.bytes",
    1_048_576,
    "How much a follower asks for per partition. One batch always comes through.",
    at_least=0,
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = REPLICATION.integer(
    "replica.fetch.response.max.bytes",
    10_485_760,
    "How much a follower asks for in one answer. One batch always comes through.",
    at_least=0,
)
REPLICA_FETCH_MIN_BYTES = REPLICATION.integer(
    "replica.fetch.min.bytes",
    1,
    "How much must be there before the leader answers a follower's fetch.",
)
REPLICA_FETCH_WAIT_MAX_MS = REPLICATION.integer(
    "replica.fetch.wait.max.ms",
    500,
    "How long a follower's fetch waits at the leader. At most `replica.lag.time.max.ms`, or idle "
    "followers would seem to lag.",
)
REPLICA_FETCH_BACKOFF_MS = REPLICATION.integer(
    "replica.fetch.backoff.ms",
    1000,
    "The pause of a follower after a failed fetch.",
    at_least=0,
)
REPLICA_SOCKET_TIMEOUT_MS = REPLICATION.integer(
    "replica.socket.timeout.ms",
    30_000,
    "How long a follower waits for the leader on the network. At least "
    "`replica.fetch.wait.max.ms`.",
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = REPLICATION.integer(
    "replica.socket.receive.buffer.bytes",
    65_536,
    "The kernel's receive buffer of a follower's connection.",
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = REPLICATION.long(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    "How often high watermarks are written down.",
)
REPLICA_SELECTOR_CLASS = REPLICATION.optional_string(
    "replica.selector.class",
    "Which replica a consumer in the same rack reads from; without it, the leader. Only the names "
    "of Kafka's own two selectors mean anything.",
)
NUM_REPLICA_FETCHERS = REPLICATION.integer(
    "num.replica.fetchers",
    1,
    "How many connections a follower opens to each leader.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)
NUM_REPLICA_ALTER_LOG_DIRS_THREADS = REPLICATION.optional_integer(
    "num.replica.alter.log.dirs.threads",
    "How many partitions move between data directories at once; as many as there are directories "
    "when not set.",
)
AUTO_LEADER_REBALANCE_ENABLE = REPLICATION.boolean(
    "auto.leader.rebalance.enable",
    True,
    "Whether leadership returns to the preferred replicas by itself.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = REPLICATION.long(
    "leader.imbalance.check.interval.seconds",
    300,
    "How often the controller looks whether leadership should return.",
    at_least=1,
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = REPLICATION.integer(
    "leader.imbalance.per.broker.percentage",
    10,
    "The share of a broker's preferred leaderships, in percent, that may be elsewhere before they "
    "are brought back.",
    listed=False,
)
LEADER_REPLICATION_THROTTLED_RATE = REPLICATION.long(
    "leader.replication.throttled.rate",
    MAX_LONG,
    "Bytes per second that this broker sends to throttled replicas. Set it while the broker runs.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
    listed=False,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = REPLICATION.long(
    "follower.replication.throttled.rate",
    MAX_LONG,
    "Bytes per second that this broker fetches for throttled replicas. Set it while the broker "
    "runs.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
    listed=False,
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = REPLICATION.long(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    MAX_LONG,
    "Bytes per second for moving partitions between data directories. Set it while the broker "
    "runs.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
    listed=False,
)

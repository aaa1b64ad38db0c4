"""Options: replication, leader election and balancing."""

from __future__ import annotations

from moldau.config.declare import (
    CLUSTER_WIDE,
    boolean,
    integer,
    long,
    optional_integer,
    optional_string,
)
from moldau.config.option import Options
from moldau.config.types import MAX_LONG


class ReplicationOptions(Options):
    """How replicas follow their leader and when a write counts as safe. With one node the settings
    of followers have nothing to act on yet.
    """

    title = "Replication"

    min_insync_replicas = integer(
        1,
        "How many in-sync replicas a write with acks=all needs; with fewer it is refused rather "
        "than acknowledged too lightly.",
        at_least=1,
        update=CLUSTER_WIDE,
    )
    unclean_leader_election_enable = boolean(
        False,
        "Whether a replica that is not in sync may become leader when no other is left, which can "
        "lose acknowledged records.",
        update=CLUSTER_WIDE,
    )
    unclean_leader_election_interval_ms = long(
        300_000,
        "How often to look for partitions that need such an election.",
        at_least=1,
        internal=True,
    )
    replica_lag_time_max_ms = long(
        30_000, "A follower that has not caught up for this long leaves the in-sync replicas."
    )
    replica_fetch_max_bytes = integer(
        1_048_576,
        "How much a follower asks for per partition. One batch always comes through.",
        at_least=0,
    )
    replica_fetch_response_max_bytes = integer(
        10_485_760,
        "How much a follower asks for in one answer. One batch always comes through.",
        at_least=0,
    )
    replica_fetch_min_bytes = integer(
        1, "How much must be there before the leader answers a follower's fetch."
    )
    replica_fetch_wait_max_ms = integer(
        500,
        "How long a follower's fetch waits at the leader. At most `replica.lag.time.max.ms`, or "
        "idle followers would seem to lag.",
    )
    replica_fetch_backoff_ms = integer(
        1000, "The pause of a follower after a failed fetch.", at_least=0
    )
    replica_socket_timeout_ms = integer(
        30_000,
        "How long a follower waits for the leader on the network. At least "
        "`replica.fetch.wait.max.ms`.",
    )
    replica_socket_receive_buffer_bytes = integer(
        65_536, "The kernel's receive buffer of a follower's connection."
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        5000, "How often high watermarks are written down."
    )
    replica_selector_class = optional_string(
        "Which replica a consumer in the same rack reads from; without it, the leader. Only the "
        "names of Kafka's own two selectors mean anything."
    )
    num_replica_fetchers = integer(
        1, "How many connections a follower opens to each leader.", at_least=1, update=CLUSTER_WIDE
    )
    num_replica_alter_log_dirs_threads = optional_integer(
        "How many partitions move between data directories at once; as many as there are "
        "directories when not set."
    )
    auto_leader_rebalance_enable = boolean(
        True, "Whether leadership returns to the preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds = long(
        300, "How often the controller looks whether leadership should return.", at_least=1
    )
    leader_imbalance_per_broker_percentage = integer(
        10,
        "The share of a broker's preferred leaderships, in percent, that may be elsewhere before "
        "they are brought back.",
        listed=False,
    )
    leader_replication_throttled_rate = long(
        MAX_LONG,
        "Bytes per second that this broker sends to throttled replicas. Set it while the broker "
        "runs.",
        at_least=0,
        update=CLUSTER_WIDE,
        listed=False,
    )
    follower_replication_throttled_rate = long(
        MAX_LONG,
        "Bytes per second that this broker fetches for throttled replicas. Set it while the "
        "broker runs.",
        at_least=0,
        update=CLUSTER_WIDE,
        listed=False,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        MAX_LONG,
        "Bytes per second for moving partitions between data directories. Set it while the broker "
        "runs.",
        at_least=0,
        update=CLUSTER_WIDE,
        listed=False,
    )

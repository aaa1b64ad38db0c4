"""Options: consumer groups and their offsets, as a broker coordinates them."""

from __future__ import annotations

from typing import Final

from moldau.config.declare import CLUSTER_WIDE, boolean, integer, long, names, short, string
from moldau.config.option import Options
from moldau.config.types import MAX_INT
from moldau.config.validators import EachOf, OneOf

_JAVA_ASSIGNORS: Final = "org.apache.kafka.coordinator.group.assignor."
CONSUMER_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_JAVA_ASSIGNORS}UniformAssignor": "uniform",
    f"{_JAVA_ASSIGNORS}RangeAssignor": "range",
}
"""What ``group.consumer.assignors`` may hold, and the name that members ask for it by."""


class GroupCoordinatorOptions(Options):
    """Group membership and committed offsets."""

    title = "Consumer groups"

    group_min_session_timeout_ms = integer(
        6000, "The shortest session timeout that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms = integer(
        1_800_000, "The longest session timeout that a member of a classic group may ask for."
    )
    group_initial_rebalance_delay_ms = integer(
        3000, "How long an empty classic group waits for more members before its first assignment."
    )
    group_max_size = integer(MAX_INT, "How many members a classic group may have.", at_least=1)
    group_coordinator_rebalance_protocols = names(
        ("classic", "consumer", "streams"),
        "Which group protocols the coordinator speaks.",
        allowed=EachOf("consumer", "classic", "share", "streams"),
    )
    group_coordinator_new_enable = boolean(
        True,
        "Which of two coordinators Kafka 3.x used; there is one here.",
        inert=True,
        listed=False,
    )
    group_coordinator_threads = integer(
        4,
        "How many threads Kafka's coordinator has. The event loop does its work here.",
        at_least=1,
        inert=True,
    )
    group_coordinator_background_threads = integer(
        2,
        "How many background threads Kafka's coordinator has. The event loop does its work here.",
        at_least=1,
        inert=True,
    )
    group_coordinator_append_linger_ms = integer(
        -1,
        "How long the coordinator gathers changes before it writes them as one batch; -1 lets it "
        "choose.",
        at_least=-1,
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        1_048_588,
        "The largest write buffer that Kafka's coordinator keeps for later.",
        at_least=524_288,
        update=CLUSTER_WIDE,
        inert=True,
    )
    group_consumer_session_timeout_ms = integer(
        45_000,
        "How long a member under the consumer protocol may be silent before it is removed.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = integer(
        45_000, "The shortest session timeout that a group may be given for itself.", at_least=1
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000, "The longest session timeout that a group may be given for itself.", at_least=1
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, "How often members under the consumer protocol are told to report.", at_least=1
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, "The shortest heartbeat interval that a group may be given for itself.", at_least=1
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000, "The longest heartbeat interval that a group may be given for itself.", at_least=1
    )
    group_consumer_max_size = integer(
        MAX_INT, "How many members a group under the consumer protocol may have.", at_least=1
    )
    group_consumer_assignors = names(
        ("uniform", "range"),
        "The ways in which the coordinator can divide partitions; the first is used when members "
        "do not ask for one. There are these two; Kafka's Java classes of the same are understood.",
    )
    group_consumer_migration_policy = string(
        "bidirectional",
        "Whether a group may move between the classic and the consumer protocol while it runs.",
        allowed=OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", any_case=True),
    )
    group_consumer_assignment_interval_ms = integer(
        1000, "The time between two assignments of one group.", at_least=0, update=CLUSTER_WIDE
    )
    group_consumer_min_assignment_interval_ms = integer(
        0, "The shortest assignment interval that a group may be given for itself.", at_least=0
    )
    group_consumer_max_assignment_interval_ms = integer(
        15_000, "The longest assignment interval that a group may be given for itself.", at_least=0
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600_000,
        "How often a subscription by pattern is matched against the topics again.",
        at_least=10_000,
        internal=True,
    )
    offset_metadata_max_bytes = integer(
        4096, "How long the note may be that a consumer leaves with a committed offset."
    )
    offsets_commit_timeout_ms = integer(
        5000, "How long an offset commit waits for the replicas of the offsets topic.", at_least=1
    )
    offsets_commit_required_acks = short(
        -1,
        "How many acknowledgements an offset commit needs; -1, all in-sync replicas, is the only "
        "safe one.",
        listed=False,
    )
    offsets_load_buffer_size = integer(
        5_242_880,
        "How much is read at a time when a coordinator loads the offsets topic.",
        at_least=1,
    )
    offsets_retention_minutes = integer(
        10_080, "How long committed offsets outlive the last member of their group.", at_least=1
    )
    offsets_retention_check_interval_ms = long(
        600_000, "How often to look for expired offsets.", at_least=1
    )
    offsets_topic_num_partitions = integer(
        50,
        "How many partitions the offsets topic is created with. It must not change afterwards.",
        at_least=1,
    )
    offsets_topic_replication_factor = short(
        3,
        "How many replicas the offsets topic is created with. Its creation waits for that many "
        "brokers if the setting is given; otherwise it makes do with those that are there.",
        at_least=1,
    )
    offsets_topic_segment_bytes = integer(
        104_857_600,
        "The segment size of the offsets topic; small segments load and compact faster.",
        at_least=1,
    )
    offsets_topic_compression_codec = integer(
        0, "The compression of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )

"""Options of one topic, and the broker's options from which each takes its default."""

from __future__ import annotations

from typing import Final

from moldau.config.declare import boolean, following, long, names, optional_integer
from moldau.config.option import Options, Synonym
from moldau.config.options.cleaner import CleanerOptions
from moldau.config.options.log import FlushOptions, LogOptions
from moldau.config.options.replication import ReplicationOptions
from moldau.config.validators import ThrottledReplicas

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


class TopicOptions(Options):
    """Settings of one topic. They are given when the topic is created, or later with `moldau config
    alter` and any Kafka tool. A topic without its own setting follows the broker setting named in
    the table, including changes to it while brokers run.
    """

    title = "Topic settings"

    cleanup_policy = following(LogOptions.log_cleanup_policy)
    compression_type = following(LogOptions.compression_type)
    compression_gzip_level = following(LogOptions.compression_gzip_level)
    compression_lz4_level = following(LogOptions.compression_lz4_level)
    compression_zstd_level = following(LogOptions.compression_zstd_level)
    delete_retention_ms = following(CleanerOptions.log_cleaner_delete_retention_ms)
    file_delete_delay_ms = following(LogOptions.log_segment_delete_delay_ms)
    flush_messages = following(FlushOptions.log_flush_interval_messages)
    flush_ms = long(
        FlushOptions.log_flush_scheduler_interval_ms.default,
        "Data is forced to disk at the latest after this time.",
        at_least=0,
        synonyms=(
            Synonym(FlushOptions.log_flush_interval_ms),
            Synonym(FlushOptions.log_flush_scheduler_interval_ms),
        ),
    )
    follower_replication_throttled_replicas = names(
        (),
        "Replicas whose fetching is throttled, as `partition:broker` pairs, or `*` for all.",
        allowed=ThrottledReplicas(),
    )
    index_interval_bytes = following(LogOptions.log_index_interval_bytes)
    internal_segment_bytes = optional_integer(
        "Takes the place of `segment.bytes` without its lower limit, for tests that need many "
        "small segments.",
        at_least=1,
        internal=True,
    )
    leader_replication_throttled_replicas = names(
        (),
        "Replicas to which sending is throttled, as `partition:broker` pairs, or `*` for all.",
        allowed=ThrottledReplicas(),
    )
    local_retention_bytes = following(LogOptions.log_local_retention_bytes)
    local_retention_ms = following(LogOptions.log_local_retention_ms)
    max_compaction_lag_ms = following(CleanerOptions.log_cleaner_max_compaction_lag_ms)
    max_message_bytes = following(LogOptions.message_max_bytes)
    message_timestamp_after_max_ms = following(LogOptions.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = following(LogOptions.log_message_timestamp_before_max_ms)
    message_timestamp_type = following(LogOptions.log_message_timestamp_type)
    min_cleanable_dirty_ratio = following(CleanerOptions.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = following(
        CleanerOptions.log_cleaner_min_compaction_lag_ms,
        "A record stays uncompacted for at least this long; at most `max.compaction.lag.ms`.",
    )
    min_insync_replicas = following(ReplicationOptions.min_insync_replicas)
    preallocate = following(LogOptions.log_preallocate)
    remote_log_copy_disable = boolean(
        False, "Tiered storage only: whether to stop copying segments away.", inert=True
    )
    remote_log_delete_on_disable = boolean(
        False,
        "Tiered storage only: whether the remote copy is deleted when tiering ends.",
        inert=True,
    )
    remote_storage_enable = boolean(
        False,
        "Whether the topic uses tiered storage, which Moldau does not have: `true` is refused.",
    )
    retention_bytes = following(LogOptions.log_retention_bytes)
    retention_ms = long(
        LogOptions.log_retention_hours.default * HOUR_MS,
        "Segments whose newest record is older than this are deleted; -1 keeps them forever.",
        at_least=-1,
        synonyms=(
            Synonym(LogOptions.log_retention_ms),
            Synonym(LogOptions.log_retention_minutes, MINUTE_MS),
            Synonym(LogOptions.log_retention_hours, HOUR_MS),
        ),
    )
    segment_bytes = following(LogOptions.log_segment_bytes)
    segment_index_bytes = following(LogOptions.log_index_size_max_bytes)
    segment_jitter_ms = long(
        LogOptions.log_roll_jitter_hours.default * HOUR_MS,
        "A random time up to this is taken off `segment.ms`, so that many partitions do not roll "
        "at once.",
        at_least=0,
        synonyms=(
            Synonym(LogOptions.log_roll_jitter_ms),
            Synonym(LogOptions.log_roll_jitter_hours, HOUR_MS),
        ),
    )
    segment_ms = long(
        LogOptions.log_roll_hours.default * HOUR_MS,
        "A segment older than this is closed even if it is not full.",
        at_least=1,
        synonyms=(Synonym(LogOptions.log_roll_ms), Synonym(LogOptions.log_roll_hours, HOUR_MS)),
    )
    unclean_leader_election_enable = following(ReplicationOptions.unclean_leader_election_enable)

"""The settings of one topic as plain attributes, for the code that reads them per batch.

Option tables say what may be set and what it means; this class says what holds, without a
dictionary look-up or a string to parse. It is immutable: a changed setting makes a new object, so
code that keeps a reference never sees a half-applied change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.config.options.topic import TopicOptions

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
COMPACT: Final = "compact"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What holds for one topic: its own settings over the broker's over Kafka's defaults.

    Field names are Kafka's with underscores.
    """

    cleanup_policy: frozenset[str] = frozenset(TopicOptions.cleanup_policy.default)
    compression_gzip_level: int = TopicOptions.compression_gzip_level.default
    compression_lz4_level: int = TopicOptions.compression_lz4_level.default
    compression_type: str = TopicOptions.compression_type.default
    compression_zstd_level: int = TopicOptions.compression_zstd_level.default
    delete_retention_ms: int = TopicOptions.delete_retention_ms.default
    file_delete_delay_ms: int = TopicOptions.file_delete_delay_ms.default
    flush_messages: int = TopicOptions.flush_messages.default
    flush_ms: int = TopicOptions.flush_ms.default
    index_interval_bytes: int = TopicOptions.index_interval_bytes.default
    max_compaction_lag_ms: int = TopicOptions.max_compaction_lag_ms.default
    max_message_bytes: int = TopicOptions.max_message_bytes.default
    message_timestamp_after_max_ms: int = TopicOptions.message_timestamp_after_max_ms.default
    message_timestamp_before_max_ms: int = TopicOptions.message_timestamp_before_max_ms.default
    message_timestamp_type: str = TopicOptions.message_timestamp_type.default
    min_cleanable_dirty_ratio: float = TopicOptions.min_cleanable_dirty_ratio.default
    min_compaction_lag_ms: int = TopicOptions.min_compaction_lag_ms.default
    min_insync_replicas: int = TopicOptions.min_insync_replicas.default
    preallocate: bool = TopicOptions.preallocate.default
    retention_bytes: int = TopicOptions.retention_bytes.default
    retention_ms: int = TopicOptions.retention_ms.default
    segment_bytes: int = TopicOptions.segment_bytes.default
    segment_index_bytes: int = TopicOptions.segment_index_bytes.default
    segment_jitter_ms: int = TopicOptions.segment_jitter_ms.default
    segment_ms: int = TopicOptions.segment_ms.default
    unclean_leader_election_enable: bool = TopicOptions.unclean_leader_election_enable.default

    @property
    def compact(self) -> bool:
        """Whether the cleaner keeps only the latest record of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are removed by time or size."""
        return DELETE in self.cleanup_policy

    def override(self, settings: Mapping[str, str]) -> TopicConfig:
        """What holds for a topic with these settings of its own over this.

        A bad value raises ``ConfigError`` (INVALID_CONFIG). An unknown name is left out, as Kafka
        does: it can only come from stored data, because ``validate_topic_configs`` refuses it at
        the door. Topics without settings share one object.
        """
        if not settings:
            return self
        values: dict[str, Any] = {}
        for name, text in settings.items():
            option = TopicOptions.table.get(name)
            if option is not None:
                value = option.parse(text)
                if option.attribute in _FIELDS:
                    values[option.attribute] = value
        if "cleanup_policy" in values:
            values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        small = settings.get(TopicOptions.internal_segment_bytes.name)
        if small is not None:
            values["segment_bytes"] = TopicOptions.internal_segment_bytes.parse(small)
        return replace(self, **values)


_FIELDS: Final = frozenset(TopicConfig.__slots__)

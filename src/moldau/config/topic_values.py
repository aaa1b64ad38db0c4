"""The settings of one topic as plain attributes, for the code that reads them per batch.

Option tables answer "what may be set and what does it mean"; this class answers "what holds here",
without a dictionary look-up or a string to parse. It is immutable: a changed setting makes a new
object, so code that keeps a reference never sees a half-applied change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_LONG: Final = 2**63 - 1
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
COMPACT: Final = "compact"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What holds for one topic: its own settings over the broker's over Kafka's defaults.

    Field names are Kafka's with underscores. Every field has Kafka's default.
    """

    cleanup_policy: frozenset[str] = frozenset({DELETE})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compact(self) -> bool:
        """Whether the cleaner keeps only the latest record of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are removed by time or size."""
        return DELETE in self.cleanup_policy

"""Partition logs on disk: segments, indexes, recovery, and the manager of all of them."""

from moldau.log.directory.description import LogDirInfo, ReplicaInfo
from moldau.log.errors import LongCheckError, RecordValidationError, StorageError
from moldau.log.manager.manager import LogManager
from moldau.log.partition.budget import AT_ONCE, DecompressionBudget
from moldau.log.partition.log import PartitionLog
from moldau.log.partition.producer_state import AppendOrigin, Verification
from moldau.log.partition.results import ActiveProducer, AppendInfo, TimestampedOffset
from moldau.log.partition.time_lookup import LongSearchError, TimeLookup
from moldau.log.partition.validation import CheckedBatch
from moldau.log.upkeep.topic_configs import TopicSettings

__all__ = [
    "AT_ONCE",
    "ActiveProducer",
    "AppendInfo",
    "AppendOrigin",
    "CheckedBatch",
    "DecompressionBudget",
    "LogDirInfo",
    "LogManager",
    "LongCheckError",
    "LongSearchError",
    "PartitionLog",
    "RecordValidationError",
    "ReplicaInfo",
    "StorageError",
    "TimeLookup",
    "TimestampedOffset",
    "TopicSettings",
    "Verification",
]

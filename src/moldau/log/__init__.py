"""Partition logs on disk: segments, indexes, recovery, and the manager of all of them."""

from moldau.log.dir_info import LogDirInfo, ReplicaInfo
from moldau.log.errors import RecordValidationError, StorageError
from moldau.log.manager import LogManager
from moldau.log.partition_log import PartitionLog
from moldau.log.producer_state import AppendOrigin
from moldau.log.slices import ActiveProducer, AppendInfo, TimestampedOffset

__all__ = [
    "ActiveProducer",
    "AppendInfo",
    "AppendOrigin",
    "LogDirInfo",
    "LogManager",
    "PartitionLog",
    "RecordValidationError",
    "ReplicaInfo",
    "StorageError",
    "TimestampedOffset",
]

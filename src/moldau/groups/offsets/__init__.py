"""Committed offsets: what groups have read."""

from moldau.groups.offsets.requests import (
    PartitionCheck,
    commit,
    commit_error,
    delete,
    delete_error,
    fetch,
)
from moldau.groups.offsets.retention import FROM_COMMIT, Retention
from moldau.groups.offsets.store import NO_PRODUCER_ID, Expired, OffsetStore
from moldau.groups.offsets.table import CommittedOffset

__all__ = [
    "FROM_COMMIT",
    "NO_PRODUCER_ID",
    "CommittedOffset",
    "Expired",
    "OffsetStore",
    "PartitionCheck",
    "Retention",
    "commit",
    "commit_error",
    "delete",
    "delete_error",
    "fetch",
]

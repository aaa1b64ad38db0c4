"""What appends and lookups return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(init=False)
class AppendInfo:
    """Where a set of batches landed."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """The broker's time if the topic wants it in the records, otherwise -1."""
    log_start_offset: int
    duplicate: bool
    """The log had this batch already: the offsets are those of the first time."""
    size: int
    flush_due: bool
    """``flush.messages`` is reached: acknowledge after the next flush has succeeded."""
    has_gap: bool
    """Offsets are missing in front of a batch, as compaction leaves it."""

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool,
        size: int,
        flush_due: bool = False,
        has_gap: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.size = size
        self.flush_due = flush_due
        self.has_gap = has_gap


class TimestampedOffset(NamedTuple):
    """A record that was looked up by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

"""One replica of a partition: its log, its place in the cluster, and what it does as a follower.

What it takes for committed it hears from its leader: the high watermark is the leader's, as far as
this log reaches. A replica that leads decides that itself, in ``replication/partition.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from moldau.controller import LeaderAndIsr
from moldau.errors import ErrorCode, KafkaError
from moldau.log import AppendInfo, PartitionLog
from moldau.model import TopicPartition

UNKNOWN_OFFSET: Final = -1
UNDEFINED_EPOCH: Final = -1

_BASE: Final = attrgetter("base_offset")


class Replica:
    """The state of one local replica, leader or follower."""

    __slots__ = (
        "high_watermark",
        "isr",
        "leader_epoch",
        "leader_id",
        "local_id",
        "log",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, local_id: int, log: PartitionLog, state: LeaderAndIsr, high_watermark: int
    ) -> None:
        self.local_id = local_id
        self.log = log
        self.topic_partition = TopicPartition(state.topic, state.partition)
        self.topic_id = state.topic_id
        self.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        self.leader_id = -1
        self.leader_epoch = UNDEFINED_EPOCH
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.local_id

    @property
    def last_stable_offset(self) -> int:
        """The end of what a ``read_committed`` consumer may see."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than ``acks=all`` needs: ``min.insync.replicas``, but
        never more than there are.
        """
        return len(self.isr) < min(self.log.config.min_insync_replicas, len(self.replicas))

    def check_leader(self, current_leader_epoch: int = UNDEFINED_EPOCH) -> None:
        """Refuse what is meant for another epoch (KIP-320) or another leader, in this order: who
        knows a later epoch than this broker does not look for the leader elsewhere, but waits.
        """
        if current_leader_epoch not in (UNDEFINED_EPOCH, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def in_later_segment(self, offset: int, end: int) -> bool:
        """Returns whether ``end`` lies in a later segment than ``offset``."""
        segments = self.log.segments
        return bisect_right(segments, offset, key=_BASE) < bisect_right(segments, end, key=_BASE)

    def diverging_epoch(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Returns where a log parts from this one that ends with that epoch at that offset; None if
        it does not.
        """
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if end_offset == UNKNOWN_OFFSET:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    # As a follower -------------------------------------------------------------------------------

    @property
    def follows(self) -> int:
        """Which broker to follow; -1 if this one leads, or nobody does."""
        return -1 if self.leader_id == self.local_id else self.leader_id

    def append_as_follower(self, records: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append what the leader of this epoch has sent."""
        if self.leader_id == self.local_id or leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return self.log.append_as_follower(records, now_ms, leader_epoch)

    def take_over_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """The leader has told its own. A new leader may know of less that is committed than this
        replica does: what was committed stays so.
        """
        log = self.log
        committed = min(high_watermark, log.log_end_offset)
        if committed > self.high_watermark:
            self.high_watermark = committed
        if log_start_offset > log.log_start_offset:
            log.increment_log_start_offset(min(log_start_offset, self.high_watermark))

    def truncated(self) -> bool:
        """The log was cut. Returns whether the high watermark fell with its end."""
        log = self.log
        high_watermark = max(log.log_start_offset, min(self.high_watermark, log.log_end_offset))
        fell = high_watermark < self.high_watermark
        self.high_watermark = high_watermark
        return fell

"""One incremental fetch session: its partitions, what the client was told of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from moldau.replication import Partition
from moldau.wire.fetch import FetchedPartition, FetchPartition

INITIAL_EPOCH: Final = 0

PartitionKey = tuple[str | None, UUID | None, int]
"""Topic name (up to Fetch v12) or id (from v13 on), and partition."""


class SessionPartition:
    """One partition of a fetch: what the client wants, what it was last told, and the last answer
    if the client was at the end: as long as nothing comes, a look at the partition is enough.
    """

    __slots__ = (
        "_last",
        "_leader_epoch",
        "_partition",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(self, key: PartitionKey, want: FetchPartition) -> None:
        self.key = key
        self.told_high_watermark = -1
        self.told_log_start = -1
        self._partition: Partition | None = None
        self._leader_epoch = -1
        self._last: FetchedPartition
        self.current_leader_epoch = want.current_leader_epoch
        self.fetch_offset = want.fetch_offset
        self.last_fetched_epoch = want.last_fetched_epoch
        self.log_start_offset = want.log_start_offset
        self.max_bytes = want.max_bytes

    def change(self, want: FetchPartition) -> None:
        """The client wants something else of this partition from now on."""
        self.current_leader_epoch = want.current_leader_epoch
        self.fetch_offset = want.fetch_offset
        self.last_fetched_epoch = want.last_fetched_epoch
        self.log_start_offset = want.log_start_offset
        self.max_bytes = want.max_bytes
        self._partition = None

    def remember(self, partition: Partition, answer: FetchedPartition) -> None:
        """The client is at the end of the partition, and this is all that there is to say."""
        self._partition, self._leader_epoch = partition, partition.leader_epoch
        self._last = answer

    def last_answer(self) -> FetchedPartition | None:
        """Returns the answer that was remembered if the partition is still as it was then."""
        partition = self._partition
        if partition is None:
            return None
        last = self._last
        if (
            partition.high_watermark != last.high_watermark
            or partition.leader_epoch != self._leader_epoch
            or partition.leader_id != partition.local_id
            or partition.log.log_start_offset != last.log_start_offset
            or partition.log.failure is not None
        ):
            self._partition = None
            return None
        return last

    def is_news(self, answer: FetchedPartition) -> bool:
        """Returns whether an incremental answer must carry this partition; remembers what is
        told.
        """
        news = (
            answer.error_code != 0
            or bool(answer.records)
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.told_high_watermark
            or answer.log_start_offset != self.told_log_start
        )
        if answer.error_code:
            # After an error the next good answer is news again.
            self.told_high_watermark = -1
        else:
            self.told_high_watermark = answer.high_watermark
        self.told_log_start = answer.log_start_offset
        return news


PartitionMap = dict[PartitionKey, SessionPartition]


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = (
        "counted",
        "created",
        "epoch",
        "last_used",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: PartitionMap,
        now: float,
        *,
        uses_topic_ids: bool,
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH + 1
        self.created = now
        self.last_used = now
        self.counted = len(partitions)
        """How many partitions the cache knows of."""

    def move_to_end(self, keys: Iterable[PartitionKey]) -> None:
        """Partitions that just had data are read last next time, so that none starves."""
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition

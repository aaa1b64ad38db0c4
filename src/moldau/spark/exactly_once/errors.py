"""Why an exactly-once query stops. Each says what is written, what is not, and what to do.

ExactlyOnceError
├── TimeoutNearError        a transaction could time out before it is committed; nothing is written
├── LostTransactionError    part of a decided batch was aborted by a timeout, the rest is written
├── CheckpointResetError    a later batch than this one is written already
├── SupersededError         another driver of this query has taken over
├── ReplannedBatchError     this batch is written already, with other input
├── LostDecisionsError      this batch is written already, but its decision is not there any more
└── UndecidableError        the cluster no longer knows what became of a transaction
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.spark.exactly_once.decision import TaskTransaction


class ExactlyOnceError(Exception):
    """The query stops here rather than lose or double rows."""


class TimeoutNearError(ExactlyOnceError):
    def __init__(self, batch: int, reason: str) -> None:
        super().__init__(
            f"Batch {batch} was not written: {reason}. Nothing of it is visible, and a restart "
            "writes it again. Make batches smaller (maxOffsetsPerTrigger) or transactions longer "
            "(exactlyOnce.transactionTimeout, up to the brokers' transaction.max.timeout.ms)"
        )


class LostTransactionError(ExactlyOnceError):
    def __init__(
        self, batch: int, lost: Collection[TaskTransaction], total: int, why: str = ""
    ) -> None:
        self.lost = tuple(lost)
        rows = sum(one.records for one in lost)
        parts = ", ".join(str(number) for number in sorted(one.partition for one in lost))
        super().__init__(
            f"Batch {batch} is written in part: {len(lost)} of its {total} transactions "
            f"({rows} rows, Spark partitions {parts}) timed out after the batch was decided and "
            "before they were committed, so that the brokers aborted them; the others are visible."
            f"{why} If the query computes the same rows in the same partitions when a batch is "
            "repeated, a restart with exactlyOnce.onLostTransaction=replay writes just these. "
            "A restart with another exactlyOnce.transactionalIdPrefix writes the whole batch "
            "again, the visible rows a second time"
        )


class CheckpointResetError(ExactlyOnceError):
    def __init__(self, batch: int, decided: int) -> None:
        super().__init__(
            f"Spark is at batch {batch}, but batch {decided} of this query is written already: its "
            "checkpoint was put back. If these batches are to be written again, set another "
            "exactlyOnce.transactionalIdPrefix"
        )


class SupersededError(ExactlyOnceError):
    def __init__(self, batch: int) -> None:
        super().__init__(
            f"Batch {batch} was not written by this driver: another one with the same checkpoint "
            "has taken over. It goes on; this one stops"
        )


class ReplannedBatchError(ExactlyOnceError):
    def __init__(self, batch: int) -> None:
        super().__init__(
            f"Batch {batch} of this query is written already, with other input offsets than it has "
            "now: the checkpoint was put back, or a copy of it has gone its own way. Rows of this "
            "batch would be lost or doubled. Go on with the checkpoint that was used last; if this "
            "one is to be used all the same, set another exactlyOnce.transactionalIdPrefix, and "
            "what both have read is written twice"
        )


class LostDecisionsError(ExactlyOnceError):
    def __init__(self, batch: int, topic: str, committed: Collection[str]) -> None:
        super().__init__(
            f"Batch {batch} of this query is written already, at least in part "
            f"({', '.join(sorted(committed)[:3])}), but topic {topic} does not know of it: has it "
            "been deleted, or lost records? With another exactlyOnce.transactionalIdPrefix the "
            "batch is written again, and its rows are there twice"
        )


class UndecidableError(ExactlyOnceError):
    def __init__(self, batch: int, unknown: Collection[TaskTransaction]) -> None:
        names = ", ".join(one.id for one in unknown)
        super().__init__(
            f"Batch {batch} was decided, but the cluster has forgotten what became of {names} "
            "(transactional.id.expiration.ms). Look for its rows in the topic; with another "
            "exactlyOnce.transactionalIdPrefix the batch is written again"
        )

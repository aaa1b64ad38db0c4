"""What is known of one transactional id, and the steps that it can take.

A step returns the metadata after it and changes nothing: what it returns is written, and holds once
it is replayed. Whether a producer may ask for a step is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from moldau.model import TopicPartition
from moldau.transactions.states import TransactionState, may_follow
from moldau.wire.stored.transaction_records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

LARGEST_EPOCH: Final = (1 << 15) - 1
NO_START: Final = -1
NO_TIMEOUT_MS: Final = (1 << 31) - 1
"""The time-out of a transaction that something else coordinates (KIP-939)."""


class TransactionVersion(IntEnum):
    """The level of the feature ``transaction.version`` that a transaction is made with."""

    TV_0 = 0
    """Producers announce partitions, and keep their epoch over transactions."""
    TV_1 = 1
    """The same, with records that may have tagged fields."""
    TV_2 = 2
    """Leaders announce partitions, and every end raises the epoch (KIP-890)."""

    @property
    def bumps_epoch(self) -> bool:
        return self >= TransactionVersion.TV_2


class ImpossibleStepError(Exception):
    """A step that no state may take: a fault of this coordinator, not of its clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step."""
    next_producer_id: int = NO_PRODUCER_ID
    """What takes the place of ``producer_id``, whose epochs are used up, when the end is complete.
    The producer knows it already.
    """
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the present one, if its producer asked for the present one."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_START
    updated_ms: int
    client_version: TransactionVersion = TransactionVersion.TV_0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether no producer may get a later epoch of this id: the last one is for fencing."""
        return is_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int | None:
        """When the transaction has taken too long, if one is open that may."""
        if self.state is not TransactionState.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_ms + self.timeout_ms

    # Steps ---------------------------------------------------------------------------------------

    def begun(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """A producer begins: with another epoch, with the same if it asks again, or with another
        id if the epochs of this one are used up.
        """
        return self._to(
            TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_START,
            updated_ms=now_ms,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], version: TransactionVersion, now_ms: int
    ) -> TransactionMetadata:
        """Partitions take part; the first ones begin a transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if is_open else now_ms,
            updated_ms=now_ms,
            client_version=version,
        )

    def decided(
        self,
        *,
        commit: bool,
        version: TransactionVersion,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> TransactionMetadata:
        """The transaction is to end. Under KIP-890 the epoch rises, so that nothing that was sent
        before can reach the next transaction.
        """
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if version.bumps_epoch:
            epoch, last_epoch = min(epoch + 1, LARGEST_EPOCH), epoch
        is_open = self.state is TransactionState.ONGOING
        return self._to(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if is_open else now_ms,
            updated_ms=now_ms,
            client_version=version,
        )

    def completed(self, now_ms: int) -> TransactionMetadata:
        """All markers are written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.producer_after_end
        return self._to(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    @property
    def producer_after_end(self) -> tuple[int, int]:
        """Producer id and epoch of the next transaction: what EndTxn answers (KIP-890)."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def _to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        if not may_follow(state, self.state):
            raise ImpossibleStepError(f"{self.transactional_id}: {self.state.name} to {state.name}")
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)


def is_exhausted(epoch: int) -> bool:
    return epoch >= LARGEST_EPOCH - 1

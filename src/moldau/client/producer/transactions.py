"""The life of a transactional producer as a state machine. No IO.

Errors are of two kinds. After an *abortable* one the transaction cannot be committed, but when it
is aborted the next can begin. After a *fatal* one, being fenced first of all, the producer can only
be closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from moldau.client.errors import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionStateError,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition


class TransactionState(Enum):
    """Where a transactional producer stands."""

    UNINITIALIZED = "uninitialized"
    """Before init_transactions(); nothing can be sent."""
    INITIALIZING = "initializing"
    """The coordinator is asked for a producer id, and fences older producers off."""
    READY = "ready"
    """No transaction is open; begin_transaction() opens one."""
    IN_TRANSACTION = "in transaction"
    """Records and offsets can be sent."""
    COMMITTING = "committing"
    """What was sent is waited for; then the coordinator is told to commit."""
    PREPARED = "prepared"
    """All that was sent is stored and the transaction is open; somebody else will end it."""
    ABORTING = "aborting"
    """What waits is dropped; then the coordinator is told to abort."""
    ABORTABLE_ERROR = "failed"
    """Something of the transaction failed: only abort_transaction() leads on."""
    FATAL_ERROR = "broken"
    """Nothing leads on; the producer can be closed."""


_S: Final = TransactionState

LEGAL: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset(),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.ABORTING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.PREPARED: frozenset({_S.COMMITTING}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset(
        {_S.INITIALIZING, _S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR}
    ),
    _S.FATAL_ERROR: frozenset(_S),
}
"""The states from which each state can be entered."""

_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


class Transactions:
    """State, error, and what belongs to the open transaction."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.error: KafkaError | None = None
        self.implicit = False
        """Transaction version 2: brokers add partitions by themselves, and every end of a
        transaction brings a new epoch (KIP-890)."""
        self.partitions: set[TopicPartition] = set()
        """Those that the coordinator knows to be part of the transaction."""
        self.pending: dict[TopicPartition, None] = {}
        """Those that it has to be told of before batches may go there, in the order of need."""
        self.has_offsets = False
        self.bump_needed = False
        """A batch was lost: its number must not be missed in the next transaction."""

    def move(self, to: TransactionState) -> None:
        if self.state not in LEGAL[to]:
            raise TransactionStateError(
                f"A producer that is {self.state.value} cannot become {to.value}"
            )
        self.state = to

    def expect(self, *states: TransactionState, what: str) -> None:
        """Refuse a call that comes at the wrong moment, or after an error."""
        if self.state in states:
            return
        if self.state is TransactionState.FATAL_ERROR and self.error is not None:
            raise self.error
        if self.state is TransactionState.ABORTABLE_ERROR and self.error is not None:
            raise _abortable(self.error)
        raise TransactionStateError(
            f"{what} is not possible: the producer is {self.state.value}{_hint(self.state)}"
        )

    @property
    def refusal(self) -> KafkaError | None:
        """Why records cannot be sent now."""
        if self.state is TransactionState.IN_TRANSACTION:
            return None
        try:
            self.expect(TransactionState.IN_TRANSACTION, what="send()")
        except KafkaError as error:
            return error
        return None

    @property
    def started(self) -> bool:
        """Whether the coordinator knows of the transaction and has to be told of its end."""
        return bool(self.partitions) or self.has_offsets

    def begin(self) -> None:
        self.expect(TransactionState.READY, what="begin_transaction()")
        self.move(TransactionState.IN_TRANSACTION)

    def ended(self) -> None:
        """The coordinator has committed or aborted."""
        self.move(TransactionState.READY)
        self.partitions.clear()
        self.pending.clear()
        self.has_offsets = False
        self.bump_needed = False
        self.error = None

    def admits(self, partition: TopicPartition) -> bool:
        """Returns whether batches may go to a partition; if not, the coordinator has to be told
        first.
        """
        if self.state not in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            return False
        if partition in self.partitions:
            return True
        if self.implicit:
            self.partitions.add(partition)
            return True
        self.pending[partition] = None
        return False

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.pending.pop(partition, None)
            self.partitions.add(partition)

    def failed(self, error: KafkaError) -> None:
        """Something of the transaction failed; decides whether that is the end of the producer."""
        if self.state is TransactionState.FATAL_ERROR:
            return
        fatal = error.code in _FATAL or isinstance(error, ProducerFencedError)
        if fatal or self.state not in LEGAL[TransactionState.ABORTABLE_ERROR]:
            if fatal:
                self.error = error
                self.move(TransactionState.FATAL_ERROR)
            return
        if self.state is not TransactionState.ABORTABLE_ERROR:
            self.error = error
        self.move(TransactionState.ABORTABLE_ERROR)


def _abortable(error: KafkaError) -> KafkaError:
    failure = TransactionAbortableError(
        message=f"The transaction has failed and has to be aborted: {error.message}"
    )
    failure.__cause__ = error
    return failure


def _hint(state: TransactionState) -> str:
    return {
        TransactionState.UNINITIALIZED: "; call init_transactions() first",
        TransactionState.READY: "; call begin_transaction() first",
    }.get(state, "")

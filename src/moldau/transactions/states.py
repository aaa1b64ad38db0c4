"""The states of a transaction, in Kafka's numbers, and which may follow which."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The numbers are stored, the labels are what clients are shown."""

    EMPTY = 0
    """The producer has its id and epoch, and no transaction yet."""
    ONGOING = 1
    """Partitions take part, and nothing is decided."""
    PREPARE_COMMIT = 2
    """It is decided, and stored, that the transaction commits: its markers are on their way."""
    PREPARE_ABORT = 3
    """The same of an abort."""
    COMPLETE_COMMIT = 4
    """Every partition has its marker."""
    COMPLETE_ABORT = 5
    """The same of an abort."""
    DEAD = 6
    """The transactional id has expired. Never stored: its record is removed."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka is about to abort for another producer. Never stored: here both are one step."""

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def is_decided(self) -> bool:
        """Whether markers are on their way: until they have arrived nothing else may begin."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_LABELS: Final = {
    state: "".join(word.capitalize() for word in state.name.split("_"))
    for state in TransactionState
}

BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

_RESTING: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

PREVIOUS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _RESTING,
    TransactionState.ONGOING: _RESTING | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # An abort without partitions (KIP-890) begins from rest.
    TransactionState.PREPARE_ABORT: _RESTING
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _RESTING,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""Which states a state may follow."""


def may_follow(state: TransactionState, previous: TransactionState) -> bool:
    return previous in PREVIOUS[state]

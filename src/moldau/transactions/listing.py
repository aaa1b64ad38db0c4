"""ListTransactions: which transactions are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from moldau.transactions.metadata import TransactionMetadata
from moldau.transactions.states import BY_LABEL, TransactionState

ANY_DURATION: Final = -1


class TransactionFilter(NamedTuple):
    """Nothing given is no restriction."""

    states: frozenset[TransactionState] | None = None
    """None: all; an empty set: only states were named that there are not."""
    producer_ids: frozenset[int] = frozenset()
    running_for_ms: int = ANY_DURATION
    """Longer than that."""

    def accepts(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        if self.states is not None and metadata.state not in self.states:
            return False
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        return self.running_for_ms < 0 or now_ms - metadata.start_ms > self.running_for_ms


def known_states(labels: Collection[str]) -> frozenset[TransactionState] | None:
    """Returns the states of these names; None if none was given."""
    if not labels:
        return None
    return frozenset(BY_LABEL[label] for label in labels if label in BY_LABEL)


def unknown_states(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(label for label in labels if label not in BY_LABEL)

"""The decision about a transaction, as the partitions that took part are told of it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from moldau.model import TopicPartition
from moldau.transactions.metadata import TransactionMetadata, TransactionVersion
from moldau.transactions.states import TransactionState


class Decision(NamedTuple):
    """What markers say, and where they go."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Under KIP-890 the epoch after the transaction: nothing that was sent in it can come later."""
    commit: bool
    version: TransactionVersion
    partitions: frozenset[TopicPartition]

    @classmethod
    def of(cls, metadata: TransactionMetadata) -> Decision:
        assert metadata.state.is_decided
        return cls(
            metadata.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            metadata.client_version,
            metadata.partitions,
        )


class Markers(Protocol):
    """Brings markers to the leaders of partitions, and does not rest before all are written."""

    def write(self, decision: Decision) -> Coroutine[Any, Any, None] | None:
        """Write the markers of a decision that is committed; at the end, let
        ``TransactionShard.markers_written`` note that it is done.
        """
        ...

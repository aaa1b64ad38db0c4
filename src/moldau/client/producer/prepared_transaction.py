"""Transactions that one process leaves open and another one ends.

A producer prepares: all its records are stored, and it will send no more. What it hands over names
the transaction exactly, so that whoever has it can commit or abort, once or many times: a repeated
end is answered with success, the opposite of an earlier end is refused (Kafka keeps no longer
promise than that: an open transaction still ends by its timeout, unlike those of KIP-939).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.producer.identity import ProducerIdentity
from moldau.client.producer.transaction_requests import TransactionRequests

_FENCE_TIMEOUT_MS: Final = 60_000
"""Has to be given, and means nothing where no transaction will begin."""


class PreparedTransaction(NamedTuple):
    """An open transaction whose records are all stored."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    implicit: bool
    """Written under transaction version 2, so that its end brings the next epoch (KIP-890)."""


async def end_prepared(
    cluster: Cluster, transaction: PreparedTransaction, *, commit: bool, within: float
) -> None:
    """Commit or abort; retriable errors are retried for ``within`` seconds.

    ``INVALID_TXN_STATE`` or ``ProducerFencedError`` say that it has ended the other way, or that a
    timeout has aborted it.
    """
    identity = ProducerIdentity()
    identity.adopt(transaction.producer_id, transaction.producer_epoch)
    requests = TransactionRequests(cluster, transaction.transactional_id, identity, 0, within)
    await requests.end(commit=commit, implicit=transaction.implicit)


async def fence_off(cluster: Cluster, transactional_id: str, *, within: float) -> None:
    """Abort what is open under this id and refuse whoever has it from now on."""
    requests = TransactionRequests(
        cluster, transactional_id, ProducerIdentity(), _FENCE_TIMEOUT_MS, within
    )
    await requests.init_producer_id()

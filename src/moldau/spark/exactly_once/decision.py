"""What tasks hand to the driver, and what the driver writes down. No IO.

A transactional id is never used twice: ``prefix.query.batch.partition.unique``. So no attempt can
fence another one off, and the batch of an open transaction can be read off its name.
"""

from __future__ import annotations

from typing import Final

import msgspec

from moldau.client.producer.prepared_transaction import PreparedTransaction

_VERSION: Final = 1


class TaskTransaction(msgspec.Struct, frozen=True):
    """The open transaction of a task: all its rows are stored, none is visible."""

    id: str
    producer_id: int
    epoch: int
    implicit: bool
    partition: int
    """Spark's partition of the batch, not a topic's."""
    records: int

    @property
    def prepared(self) -> PreparedTransaction:
        return PreparedTransaction(self.id, self.producer_id, self.epoch, self.implicit)


class Decision(msgspec.Struct, frozen=True):
    """These transactions, and no others, are the batch."""

    batch: int
    transactions: tuple[TaskTransaction, ...]
    plan: str = ""
    """Which input the batch has (see ``checkpoint``); empty where that is not known."""
    version: int = _VERSION


class DecisionFormatError(ValueError):
    """A decision that this release cannot read."""


class QueryName(msgspec.Struct, frozen=True):
    """Who decides: ``prefix`` is an option, ``query`` the id that the checkpoint keeps."""

    prefix: str
    query: str

    @property
    def key(self) -> str:
        """Of the decisions, and what every transactional id begins with."""
        return f"{self.prefix}.{self.query}"

    @property
    def decider(self) -> str:
        """The transactional id under which decisions are written: it has one holder at a time."""
        return f"{self.key}.decisions"

    def transactional_id(self, batch: int, partition: int, unique: str) -> str:
        return f"{self.key}.{batch}.{partition}.{unique}"

    def batch_of(self, transactional_id: str) -> int | None:
        """The batch of a task's transactional id; None if it is not one of this query's."""
        if not transactional_id.startswith(f"{self.key}."):
            return None
        parts = transactional_id.removeprefix(f"{self.key}.").split(".")
        return int(parts[0]) if len(parts) == 3 and parts[0].isdecimal() else None


def encode(decision: Decision) -> bytes:
    return msgspec.json.encode(decision)


def decode(data: bytes) -> Decision:
    try:
        decision = msgspec.json.decode(data, type=Decision)
    except msgspec.DecodeError as error:
        raise DecisionFormatError(f"The decision is not readable: {error}") from None
    if decision.version != _VERSION:
        raise DecisionFormatError(
            f"The decision was written by a later release (format {decision.version})"
        )
    return decision

"""A transaction coordinator without a log: what it decides is replayed at once, and effects wait
until a test lets them start.
"""

from __future__ import annotations

from typing import Any

from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.outcome import Effect, Outcome
from moldau.transactions.markers import Decision
from moldau.transactions.metadata import TransactionMetadata, TransactionVersion
from moldau.transactions.rules import Producer
from moldau.transactions.settings import TransactionSettings
from moldau.transactions.shard import ProducerIdResult, TransactionShard

NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
ID = "t"
FIRST = TopicPartition("a", 0)
SECOND = TopicPartition("b", 3)
TV_0, TV_2 = TransactionVersion.TV_0, TransactionVersion.TV_2


class Coordinator:
    """One shard; ``told`` are the decisions whose markers were asked for."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.told: list[Decision] = []
        self.now_ms = NOW_MS
        self.next_id = 1000
        self.shard = TransactionShard(self.settings, self)

    def write(self, decision: Decision) -> None:
        self.told.append(decision)

    def fail_over(self) -> None:
        """Another coordinator takes over what is in the log."""
        self.told = []
        self.shard = TransactionShard(self.settings, self)
        for key, value in self.log:
            self.shard.replay(key, value)
        self.act(self.shard.on_loaded(self.now_ms))

    def act(self, outcome: Outcome) -> Any:
        for record in outcome.records:
            self.log.append(record)
            self.shard.replay(*record)
        effects: list[Effect] = outcome.effects
        for effect in effects:
            effect()
        return outcome.replies[0].response if outcome.replies else None

    @property
    def metadata(self) -> TransactionMetadata:
        known = self.shard.get(ID)
        assert known is not None
        return known

    def init(self, expected: Producer | None = None) -> ProducerIdResult:
        self.next_id += 1
        result: ProducerIdResult = self.act(
            self.shard.init_producer_id(ID, TIMEOUT_MS, expected, None, self.now_ms, self.next_id)
        )
        return result

    def started(self) -> Producer:
        """A producer with a fresh epoch."""
        result = self.init()
        assert result.error is ErrorCode.NONE
        return Producer(result.producer_id, result.producer_epoch)

    def add(
        self,
        producer: Producer,
        *partitions: TopicPartition,
        version: TransactionVersion = TV_2,
    ) -> ErrorCode:
        errors: dict[TopicPartition, ErrorCode] = self.act(
            self.shard.add_partitions(
                ID, producer, frozenset(partitions), version, None, self.now_ms
            )
        )
        (code,) = set(errors.values())
        return code

    def end(
        self, producer: Producer, *, commit: bool = True, version: TransactionVersion = TV_2
    ) -> ProducerIdResult:
        self.next_id += 1
        result: ProducerIdResult = self.act(
            self.shard.end_transaction(
                ID,
                producer,
                None,
                self.now_ms,
                commit=commit,
                version=version,
                new_producer_id=self.next_id,
            )
        )
        return result

    def complete(self) -> None:
        """All markers are written."""
        self.act(self.shard.markers_written(self.told[-1], self.now_ms))

    def with_epoch(self, epoch: int) -> Producer:
        """A producer whose id has been used for long."""
        producer = self.started()
        while self.metadata.producer_epoch < epoch:
            present = self.metadata.producer_epoch
            self.log.append(_with_epoch(self.metadata, min(epoch, present + 40_000)))
            self.shard.replay(*self.log[-1])
        return Producer(producer.producer_id, epoch)


def _with_epoch(metadata: TransactionMetadata, epoch: int) -> tuple[bytes, bytes | None]:
    from dataclasses import replace

    from moldau.transactions.records import to_record

    return to_record(replace(metadata, producer_epoch=epoch))

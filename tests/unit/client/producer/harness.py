"""The pure parts of a producer without a network: time is a number, answers are calls."""

from __future__ import annotations

from random import Random
from typing import Any

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.batch import Delivery, ProducerBatch
from moldau.client.producer.identity import ProducerIdentity
from moldau.client.producer.metrics import ProducerMetrics
from moldau.client.producer.outcomes import Outcomes
from moldau.client.producer.queue import PartitionQueue, TopicState
from moldau.client.settings import ProducerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID
from moldau.records.reader import read_records

TOPIC = "t"


class Bench:
    """A producer's accumulator and outcomes; the test plays the sender and the broker."""

    def __init__(self, partitions: int = 1, **settings: Any) -> None:
        self.now = 100.0
        self.wakes = 0
        self.settings = ProducerSettings(bootstrap_servers="nowhere", **settings)
        self.accumulator = Accumulator(
            now=lambda: self.now,
            now_ms=lambda: round(self.now * 1000),
            wake=self._woken,
            batch_size=self.settings.batch_size,
            linger=self.settings.linger_ms / 1000,
            memory=self.settings.buffer_memory,
            largest_record=min(self.settings.max_request_size, self.settings.buffer_memory),
            compression=0,
            level=None,
            ignore_keys=self.settings.partitioner_ignore_keys,
        )
        self.identity = ProducerIdentity()
        self.identity.adopt(7, 0)
        self.outcomes = Outcomes(
            self.accumulator,
            self.identity,
            self.settings,
            ProducerMetrics(30.0, 2, self.now),
            Random(1),
        )
        self.state = TopicState(
            TOPIC, self.settings.batch_size, 1 << 20, adaptive=True, random=Random(1)
        )
        self.state.update(NO_TOPIC_ID, [0] * partitions, list(range(partitions)))
        self.accumulator.topics[TOPIC] = self.state

    def _woken(self) -> None:
        self.wakes += 1

    def queue(self, partition: int = 0) -> PartitionQueue:
        return self.state.queues[partition]

    def send(self, value: bytes | None, partition: int | None = None, **more: Any) -> Delivery:
        delivery = self.try_send(value, partition, **more)
        assert delivery is not None
        return delivery

    def try_send(
        self, value: bytes | None, partition: int | None = None, **more: Any
    ) -> Delivery | None:
        return self.accumulator.send(
            TOPIC, value, more.get("key"), more.get("headers", ()), partition, more.get("timestamp")
        )

    # The sender's part

    def head(self, partition: int = 0) -> ProducerBatch | None:
        queue = self.queue(partition)
        return queue.waiting[0] if queue.waiting else queue.open

    def may_send(self, partition: int = 0) -> bool:
        """Whether the next batch of the partition may go now."""
        batch = self.head(partition)
        queue = self.queue(partition)
        due = self.accumulator.due(queue)
        return batch is not None and due <= self.now and self.identity.may_send(queue, batch)

    def take(self, partition: int = 0) -> ProducerBatch:
        """Take and encode the next batch, as for a request."""
        queue = self.queue(partition)
        assert self.may_send(partition), queue
        if queue.must_reset:
            self.identity.reset(queue)
        batch = self.accumulator.take(queue)
        self.identity.number(queue, batch)
        queue.outstanding += 1
        batch.attempts += 1
        if batch.data is None:
            batch.data = batch.builder.build(
                producer_id=queue.producer_id,
                producer_epoch=queue.producer_epoch,
                base_sequence=batch.sequence,
            )
        return batch

    # The broker's part

    def stored(self, batch: ProducerBatch, offset: int = 0, append_time: int = -1) -> None:
        queue = self.queue(batch.partition)
        queue.outstanding -= 1
        self.outcomes.stored(queue, batch, offset, append_time)

    def refused(self, batch: ProducerBatch, code: ErrorCode) -> None:
        queue = self.queue(batch.partition)
        queue.outstanding -= 1
        self.outcomes.refused(queue, batch, KafkaError(code), self.now)


def values_in(batch: ProducerBatch) -> list[bytes | None]:
    assert batch.data is not None
    return [record.value for record in read_records(batch.data)]

"""Whole batches of records into a producer, for those who encode records by the column.

Records come in the bytes of the message format; everything after that is the producer's: memory,
compression, order, identity, retries, transactions. A topic's layout is asked for before each
encoding, since partitions may be added at any time.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.client.producer.batch import ManyDelivery
from moldau.client.producer.producer import Producer
from moldau.client.producer.record import EncodedRecords


class Layout(NamedTuple):
    """What to know of a topic before encoding records for it."""

    partitions: int
    batch_size: int
    """Bytes of records for a batch, before compression: what becomes of ``batch.size`` bytes."""
    largest_batch: int


class BulkProducer:
    """A blocking producer's entrance for encoded records."""

    def __init__(self, producer: Producer) -> None:
        self._core = producer._core
        self._thread = producer._thread

    @property
    def possible(self) -> bool:
        """Not if the producer has serializers, interceptors or a partitioner: they see records."""
        return self._core.takes_encoded

    @property
    def ignores_keys(self) -> bool:
        return self._core.settings.partitioner_ignore_keys

    def layout(self, topic: str) -> Layout:
        """Waits for metadata of a new topic, ``max.block.ms`` at most."""
        state = self._core.accumulator.topics.get(topic)
        if state is None:
            self._thread.run(self._core.partitions_for(topic))
            state = self._core.accumulator.topics[topic]
        return Layout(
            len(state.leaders),
            max(1, min(queue.limit for queue in state.queues)),
            min(queue.grown_limit for queue in state.queues),
        )

    def spread(self, topic: str, batches: int) -> list[int]:
        """Partitions for batches of records that may go anywhere."""
        accumulator = self._core.accumulator
        with accumulator.home.lock:
            return accumulator.topics[topic].spread(batches)

    def send(self, topic: str, partition: int, records: EncodedRecords) -> ManyDelivery:
        """Queue a batch; blocks for room in the buffer, ``max.block.ms`` at most."""
        batch = self._core.accumulator.send_encoded(topic, partition, records)
        if batch is None:
            batch = self._thread.run(self._core.send_encoded(topic, partition, records))
        return ManyDelivery([(batch, 0, records.count)], records.base_timestamp)

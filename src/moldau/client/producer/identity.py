"""Sequence numbers: how a broker recognises a batch that it has stored already. No IO.

A producer has an id and an epoch; in each partition its batches are numbered by their records. The
rules, for batches under way at the same time and retried in any order:

- A number is given when a batch is first sent, and stays. A batch to be sent again goes alone,
  once all before it are settled.
- The first batch of an epoch goes alone until it is acknowledged: a broker that knows nothing of a
  producer takes any number, so a second batch could overtake a first one that has to be retried.
- OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that is not the first unsettled one says nothing: the
  one before it is being retried. For the first one it says that the broker misses something that
  this producer has given up. Then neither this batch nor a later one is stored, so when nothing is
  under way any more, they get numbers from 0 in a higher epoch (KIP-360). Nothing is stored twice.
"""

from __future__ import annotations

from typing import Final

from moldau.client.producer.batch import NO_SEQUENCE, ProducerBatch
from moldau.client.producer.queue import PartitionQueue
from moldau.client.settings.producer import MOST_IN_FLIGHT
from moldau.records.batch import MAX_SEQUENCE, patch_producer

MAX_EPOCH: Final = 2**15 - 1


class ProducerIdentity:
    """The id and epoch of a producer, -1 before it has one."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1

    @property
    def is_known(self) -> bool:
        return self.producer_id >= 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch

    def bump(self) -> None:
        """The next epoch; after the last one, another id has to be asked for."""
        if self.epoch >= MAX_EPOCH:
            self.producer_id = self.epoch = -1
        else:
            self.epoch += 1

    def __repr__(self) -> str:
        return f"<producer id {self.producer_id}, epoch {self.epoch}>"

    def may_send(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Returns whether this batch, the next in the queue, may go now."""
        if queue.must_reset:
            return queue.outstanding == 0
        if batch.sequence != NO_SEQUENCE:
            return queue.in_flight[0] is batch
        if not queue.in_flight:
            return True
        if not queue.confirmed or not self._is_current(queue):
            return False
        # Whatever is stored after the oldest counts, too: while its request hangs at a leader that
        # is gone, the next leader answers for others, and forgets the oldest after five of them.
        behind = batch.number - queue.in_flight[0].number
        return len(queue.in_flight) < MOST_IN_FLIGHT and behind < MOST_IN_FLIGHT

    def number(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Give a batch that is sent for the first time its place."""
        if batch.sequence != NO_SEQUENCE:
            return
        if not self._is_current(queue):
            assert not queue.in_flight
            self._start(queue)
        batch.sequence = queue.next_sequence
        queue.next_sequence = _after(batch)
        queue.in_flight.append(batch)

    def stored(self, queue: PartitionQueue) -> None:
        """The broker knows this producer now."""
        queue.confirmed = True

    def settled(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """This batch will not be sent again."""
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)

    def out_of_order(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The broker misses something before this batch."""
        if queue.in_flight and queue.in_flight[0] is batch:
            queue.must_reset = True

    def reset(self, queue: PartitionQueue) -> None:
        """Number the unsettled batches of a partition anew; none of them is under way."""
        if self._is_current(queue):
            self.bump()
        if not self.is_known:
            return
        queue.must_reset = False
        self._start(queue)
        for batch in queue.in_flight:
            batch.sequence = queue.next_sequence
            queue.next_sequence = _after(batch)
            data = batch.data
            if data is not None:
                patch_producer(
                    data, 0, len(data), self.producer_id, self.epoch, batch.sequence
                )  # fmt: skip

    def replace(
        self, queue: PartitionQueue, batch: ProducerBatch, halves: tuple[ProducerBatch, ...]
    ) -> None:
        """A batch goes on as several, with the same numbers for its records."""
        if batch.sequence == NO_SEQUENCE:
            return
        place = queue.in_flight.index(batch)
        sequence = batch.sequence
        for half in halves:
            half.sequence = sequence
            sequence = _after(half)
        queue.in_flight[place : place + 1] = halves

    def _is_current(self, queue: PartitionQueue) -> bool:
        return queue.producer_id == self.producer_id and queue.producer_epoch == self.epoch

    def _start(self, queue: PartitionQueue) -> None:
        queue.producer_id = self.producer_id
        queue.producer_epoch = self.epoch
        queue.next_sequence = 0
        queue.confirmed = False


def _after(batch: ProducerBatch) -> int:
    """The number that follows; numbers wrap around."""
    return (batch.sequence + batch.count) & MAX_SEQUENCE

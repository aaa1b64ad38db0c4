"""What waits for one partition, and the partitions of a topic. No IO and no clock.

Compiled by mypyc where a compiler was at hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

from moldau.client.errors import UnknownTopicError
from moldau.client.producer.batch import ProducerBatch
from moldau.client.producer.murmur import partition_for_key
from moldau.model import NO_TOPIC_ID
from moldau.records.native import i64

GROWTH: Final = 16
"""How many times batch.size the last batch of a partition may grow to while others wait."""
LARGEST_GROWN: Final = 1_000_000
"""No batch grows to more than topics take by default (max.message.bytes)."""

_BEHIND: Final = 4
"""So many more batches wait for a slow partition than for others."""

_RATIO_MARGIN: Final = 1.05
_RATIO_IMPROVES_BY: Final = 0.005


class PartitionQueue:
    """The batches of one partition, oldest first. Guarded by the accumulator's lock."""

    def __init__(self, topic: str, partition: int, batch_size: int, largest: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: ProducerBatch | None = None
        """The batch that collects records; the last one."""
        self.waiting: deque[ProducerBatch] = deque()
        """Closed batches to send, those to be sent again in front."""
        self.in_flight: list[ProducerBatch] = []
        """Batches with a sequence number that are not settled, in order."""
        self.outstanding: int = 0
        """Batches whose request is under way."""
        self.next_number: int = 0
        self.last_used: float = 0.0
        """When the last batch was begun."""
        self.producer_id: int = -1
        self.producer_epoch: int = -1
        self.next_sequence: int = 0
        self.confirmed: bool = False
        """Whether the broker has stored something of this producer in this epoch."""
        self.must_reset: bool = False
        """The broker misses a batch that this producer gave up: numbers have to start anew."""
        self.ratio: float = 1.0
        """What compression makes of a byte here, a cautious guess (1.0 without a codec)."""
        self.batch_size = batch_size
        self.largest = largest
        self.limit: i64 = batch_size
        self.grown_limit: i64 = max(batch_size, min(batch_size * GROWTH, largest, LARGEST_GROWN))

    def compressed(self, before: int, after: int) -> None:
        """Learn from a batch what the codec does to this partition's records."""
        observed = after / before
        if observed > self.ratio:
            self.ratio = observed
        else:
            self.ratio = max(self.ratio - _RATIO_IMPROVES_BY, observed)
        scale = 1.0 / max(self.ratio * _RATIO_MARGIN, 0.05)
        self.limit = max(self.batch_size, int(self.batch_size * scale))
        self.grown_limit = max(self.limit, min(self.limit * GROWTH, self.largest, LARGEST_GROWN))

    def too_large(self) -> None:
        """The broker refused a batch for its size: no growing, and no faith in the codec."""
        self.ratio = 1.0
        self.limit = self.batch_size
        self.grown_limit = self.batch_size

    def close_open(self) -> bool:
        """Let the open batch go; whether there was one."""
        batch = self.open
        if batch is None:
            return False
        self.waiting.append(batch)
        self.open = None
        return True

    def put_back(self, batch: ProducerBatch) -> None:
        """To be sent again, before what was sent after it."""
        place = 0
        for other in self.waiting:
            if other.number > batch.number:
                break
            place += 1
        self.waiting.insert(place, batch)

    def is_empty(self) -> bool:
        return self.open is None and not self.waiting

    def __repr__(self) -> str:
        return f"<queue of {self.topic}-{self.partition}: {len(self.waiting)} batches wait>"


class TopicState:
    """The partitions of a topic, and which one takes records without a key just now.

    Such records stick to a partition for a batch and then move on (KIP-480, KIP-794): of two others
    by chance, the one with fewer batches waiting, so slow brokers get less.
    """

    def __init__(
        self, name: str, batch_size: int, largest: int, adaptive: bool, random: Random
    ) -> None:
        self.name = name
        self.topic_id: UUID = NO_TOPIC_ID
        self.queues: list[PartitionQueue] = []
        self.leaders: list[int] = []
        self.available: list[int] = []
        self._batch_size = batch_size
        self._largest = largest
        self._adaptive = adaptive
        self._sticky: PartitionQueue | None = None
        self._sticky_bytes: i64 = 0
        self._random = random

    def update(self, topic_id: UUID, leaders: Sequence[int], available: Sequence[int]) -> None:
        """What the cluster says now: the leader of each partition, and those that have one."""
        self.topic_id = topic_id
        self.leaders = list(leaders)
        self.available = list(available)
        while len(self.queues) < len(leaders):
            number = len(self.queues)
            self.queues.append(PartitionQueue(self.name, number, self._batch_size, self._largest))
        sticky = self._sticky
        if sticky is not None and sticky.partition not in self.available:
            self._sticky = None

    def used_since(self, when: float) -> bool:
        return max(queue.last_used for queue in self.queues) >= when

    def by_number(self, partition: int) -> PartitionQueue:
        if not 0 <= partition < len(self.leaders):
            raise UnknownTopicError(self.name, partition)
        return self.queues[partition]

    def by_key(self, key: bytes) -> PartitionQueue:
        return self.queues[partition_for_key(key, len(self.leaders))]

    def sticky(self) -> PartitionQueue:
        queue = self._sticky
        if queue is None:
            queue = self._choose()
            self._sticky = queue
            self._sticky_bytes = 0
        return queue

    def stuck(self, queue: PartitionQueue, size: i64) -> None:
        """A record of this size went to the sticky partition."""
        total = self._sticky_bytes + size
        self._sticky_bytes = total
        if total >= self._batch_size and (queue.open is None or total >= 2 * self._batch_size):
            self._sticky = None

    def spread(self, batches: int) -> list[int]:
        """Partitions for whole batches of records without a key: from one by chance on, by turns.

        Those of slow brokers, with more batches waiting than another, get none for now.
        """
        numbers = self.available or list(range(len(self.leaders)))
        if self._adaptive:
            shortest = min(len(self.queues[number].waiting) for number in numbers)
            quick = [n for n in numbers if len(self.queues[n].waiting) <= shortest + _BEHIND]
        else:
            quick = numbers
        first = int(self._random.random() * len(quick))
        return [quick[(first + turn) % len(quick)] for turn in range(batches)]

    def _choose(self) -> PartitionQueue:
        count = len(self.available)
        if count == 0:
            return self.queues[int(self._random.random() * len(self.leaders))]
        first = self.queues[self.available[int(self._random.random() * count)]]
        if count == 1 or not self._adaptive:
            return first
        second = self.queues[self.available[int(self._random.random() * count)]]
        return second if len(second.waiting) < len(first.waiting) else first

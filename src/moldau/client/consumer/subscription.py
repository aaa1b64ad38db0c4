"""What a consumer wants to read and what it has been given: by topics, by pattern, or by hand.

The three ways exclude each other; the last call of the same way wins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum

from moldau.client import arguments
from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.model import TopicPartition


class SubscriptionKind(Enum):
    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    BROKER_PATTERN = "a pattern that the broker evaluates"
    MANUAL = "partitions"


class SubscriptionState:
    """Subscription, assignment and the state of each assigned partition."""

    def __init__(self, space: BufferSpace) -> None:
        self._space = space
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        """What was subscribed to, or what the pattern matches now."""
        self.pattern: re.Pattern[str] | None = None
        self.broker_pattern: str | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}

    @property
    def states(self) -> Collection[PartitionState]:
        return self.partitions.values()

    @property
    def uses_group(self) -> bool:
        """Whether partitions come from a group."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.MANUAL)

    def subscribe(self, topics: Collection[str]) -> None:
        self._choose(SubscriptionKind.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._choose(SubscriptionKind.PATTERN)
        if self.pattern != pattern:
            self.topics = frozenset()
        self.pattern = pattern

    def subscribe_broker_pattern(self, pattern: str) -> None:
        self._choose(SubscriptionKind.BROKER_PATTERN)
        self.broker_pattern = pattern

    def matched(self, topics: Iterable[str]) -> bool:
        """Returns whether the pattern stands for other topics than before, now that these exist."""
        if self.pattern is None:
            return False
        matching = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        changed = matching != self.topics
        self.topics = matching
        return changed

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """By hand. Positions of partitions that stay are kept."""
        self._choose(SubscriptionKind.MANUAL)
        wanted = dict.fromkeys(partitions)
        self.remove([partition for partition in self.partitions if partition not in wanted])
        self.add(wanted)
        self.partitions = {partition: self.partitions[partition] for partition in wanted}

    def unsubscribe(self) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics = frozenset()
        self.pattern = None
        self.broker_pattern = None
        self.remove(list(self.partitions))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """States of partitions that are there already are kept."""
        self.partitions |= {
            partition: PartitionState(partition, self._space)
            for partition in partitions
            if partition not in self.partitions
        }

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up, and what was fetched of them."""
        left = dict(self.partitions)
        gone = [left.pop(partition, None) for partition in partitions]
        self.partitions = left  # first: nobody shall find a closed state
        for state in gone:
            if state is not None:
                state.close()

    def state(self, partition: TopicPartition) -> PartitionState:
        try:
            return self.partitions[partition]
        except (KeyError, TypeError):
            asked = arguments.partition(partition)
            raise ValueError(f"partition {asked} is not assigned to this consumer") from None

    def _choose(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise ValueError(
                f"this consumer reads {self.kind.value} already; "
                f"unsubscribe() before it reads {kind.value}"
            )
        self.kind = kind

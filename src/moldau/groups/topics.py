"""The topics of the cluster as coordinators see them.

The broker supplies a view over its metadata; ``FixedTopics`` is a small one for tests and for
tools that have no broker behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID, uuid5

_NAMESPACE = UUID("6f4f9d1e-6d3a-4d0e-9e56-0f5a2b8f7c11")


class TopicView(Protocol):
    """What a coordinator may ask about topics. Answers may change between two calls of it."""

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None: there is no such topic."""

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic; None: there is no such topic."""

    def name(self, topic_id: UUID) -> str | None:
        """The topic with this id; None: there is no such topic."""

    def names(self) -> Iterable[str]:
        """All topics, internal ones too."""

    def racks(self, topic: str) -> Sequence[Collection[str]]:
        """For each partition the racks of its replicas; empty when racks are not known."""


class FixedTopics:
    """A view over a table of partition counts that its owner changes by hand."""

    def __init__(self, partitions: Mapping[str, int] | None = None) -> None:
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._created = 0
        for name, count in (partitions or {}).items():
            self.set(name, count)

    def set(self, topic: str, partitions: int) -> UUID:
        """Create a topic, or change its partition count; its id."""
        if topic not in self._ids:
            # A topic created again is another topic, so ids must differ; but be reproducible.
            self._created += 1
            topic_id = uuid5(_NAMESPACE, f"{topic}/{self._created}")
            self._ids[topic] = topic_id
            self._names[topic_id] = topic
        self._partitions[topic] = partitions
        return self._ids[topic]

    def remove(self, topic: str) -> None:
        del self._partitions[topic]
        del self._names[self._ids.pop(topic)]

    def partitions(self, topic: str) -> int | None:
        return self._partitions.get(topic)

    def topic_id(self, topic: str) -> UUID | None:
        return self._ids.get(topic)

    def name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def names(self) -> Iterable[str]:
        return tuple(self._partitions)

    def racks(self, topic: str) -> Sequence[Collection[str]]:  # noqa: ARG002
        return ()

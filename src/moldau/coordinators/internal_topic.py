"""An internal topic: made when somebody first looks for a coordinator that has its state there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from moldau.controller import CreateTopicResult, NewTopic
from moldau.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

PartitionCount: TypeAlias = Callable[[str], int | None]
"""How many partitions a topic has; None: there is no such topic."""
CreateTopic: TypeAlias = Callable[[NewTopic], Awaitable[CreateTopicResult]]


class InternalTopic:
    """Creates its topic once, however many ask for it."""

    def __init__(
        self,
        name: str,
        new_topic: Callable[[], NewTopic],
        partition_count: PartitionCount,
        create_topic: CreateTopic,
    ) -> None:
        """``new_topic`` is what the settings now in force would make of it."""
        self.name = name
        self._new_topic = new_topic
        self._partition_count = partition_count
        self._create_topic = create_topic
        self._creating = asyncio.Lock()
        self._told_refusal: str | None = None

    @property
    def exists(self) -> bool:
        return self._partition_count(self.name) is not None

    @property
    def partitions(self) -> int:
        """How many partitions the coordinator's state is spread over."""
        count = self._partition_count(self.name)
        return self._new_topic().num_partitions if count is None else count

    async def create(self) -> None:
        """Create the topic if it is not there; COORDINATOR_NOT_AVAILABLE if that fails."""
        async with self._creating:
            if self.exists:
                return
            result = await self._create_topic(self._new_topic())
        if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._tell(result.message or result.error.name)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.message)

    def _tell(self, refusal: str) -> None:
        # Clients ask again ten times a second, and hear the same until brokers come or go.
        if refusal != self._told_refusal:
            log.warning("cannot create %s: %s", self.name, refusal)
            self._told_refusal = refusal

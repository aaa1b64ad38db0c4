"""What is asked of the controller: done in office, in turn, and answered when brokers know of it.

These are the methods of the broker's way to the controller, wherever that is. Each may raise
KafkaError, and nothing else: NOT_CONTROLLER where this broker is not in charge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Self, TypeVar

from moldau.controller.courier import Delivery
from moldau.controller.office import Office
from moldau.controller.requests import (
    AlterPartition,
    AlterPartitionResult,
    ClientQuotaAlteration,
    ClientQuotaResult,
    ConfigAlteration,
    ConfigResult,
    CreateTopicResult,
    DeleteTopicResult,
    Mutator,
    NewPartitions,
    NewReplicas,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
    ProducerIdBlock,
    TopicReference,
    TopicResult,
)
from moldau.controller.topic_admin import Creation
from moldau.errors import KafkaError
from moldau.model import ElectionType, TopicPartition

T = TypeVar("T")

SILENCE_S: Final = 1.0
"""For how long a request that was decided waits for a broker that says nothing. It will hear of it
later.
"""


class ServingController(ABC):
    """Answers requests; who derives from it knows whether there is an office to do so."""

    @abstractmethod
    async def _request(self, duty: Callable[[Office], Awaitable[T]]) -> T:
        """Do it in office, in turn. Raises nothing but KafkaError, as from another broker."""

    def within(self, _seconds: float) -> Self:
        """Returns itself: who is in charge, or is not, knows it at once."""
        return self

    async def _announced(self, duty: Callable[[Office], Awaitable[T]]) -> T:
        """Do it in office, in turn; returns when brokers that answer soon have applied it."""

        async def tell(office: Office) -> tuple[T, Delivery]:
            return await duty(office), office.active.sender.flush()

        result, delivery = await self._request(tell)
        await delivery.wait(SILENCE_S)
        return result

    async def _answers_heeded(self) -> None:
        """Returns when what brokers have answered so far has been dealt with, and announced."""

        async def nothing(_office: Office) -> None: ...

        with suppress(KafkaError):  # what was decided is written: the next controller goes on
            await self._announced(nothing)

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[CreateTopicResult]:
        """Returns one result per name, in order."""
        offices: list[Office] = []

        async def create(office: Office) -> Creation:
            offices.append(office)
            return await office.topics.create_topics(
                topics, validate_only=validate_only, mutator=mutator
            )

        creation = await self._request(create)
        try:
            await creation.delivery.wait(SILENCE_S)
            if not creation.delivery.has_failed:
                return creation.decided
            results = await self._announced(lambda office: office.topics.confirm(creation))
        finally:
            offices[0].topics.release(creation)
        await self._answers_heeded()
        return results

    async def auto_create(
        self, names: Sequence[str], *, mutator: Mutator | None = None
    ) -> list[CreateTopicResult]:
        """Topics with the default counts, for names that a client mentioned."""
        topics = [NewTopic(name=name) for name in dict.fromkeys(names)]
        return await self.create_topics(topics, mutator=mutator)

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[TopicResult]:
        growth = await self._announced(
            lambda office: office.topics.create_partitions(
                topics, validate_only=validate_only, mutator=mutator
            )
        )
        if growth.delivery.has_failed:
            await self._answers_heeded()
        return growth.results

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, mutator: Mutator | None = None
    ) -> list[DeleteTopicResult]:
        """Raises TOPIC_DELETION_DISABLED where that is so."""
        results = await self._announced(
            lambda office: office.deletion.delete_topics(topics, mutator=mutator)
        )
        await self._answers_heeded()
        return results

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ConfigResult]:
        """Returns one result per alteration, in order."""
        return await self._announced(
            lambda office: office.configs.alter(alterations, validate_only=validate_only)
        )

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        """Returns one result per partition, in order; None asks for every partition."""
        return await self._announced(lambda office: office.elections.elect(kind, partitions))

    async def alter_reassignments(
        self, targets: Sequence[NewReplicas], *, allow_replication_factor_change: bool = True
    ) -> list[PartitionResult]:
        """Returns one result per target, in order."""

        async def alter(office: Office) -> list[PartitionResult]:
            return office.reassignments.alter(
                targets, allow_replication_factor_change=allow_replication_factor_change
            )

        return await self._request(alter)

    async def ongoing_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> list[OngoingReassignment]:
        """Returns which of these partitions, or of all, are on the move."""

        async def ongoing(office: Office) -> list[OngoingReassignment]:
            return office.reassignments.ongoing(partitions)

        return await self._request(ongoing)

    async def alter_client_quotas(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> list[ClientQuotaResult]:
        """Returns one result per entity."""
        return await self._announced(
            lambda office: office.client_quotas.alter(alterations, validate_only=validate_only)
        )

    async def alter_partitions(
        self, broker: int, broker_epoch: int, requests: Sequence[AlterPartition]
    ) -> list[AlterPartitionResult]:
        """A leader's changes of its in-sync replicas; raises STALE_BROKER_EPOCH."""
        return await self._request(
            lambda office: office.active.alter_partitions(broker, broker_epoch, requests)
        )

    async def offline_replicas(
        self, broker: int, broker_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """A broker's disk failed under these replicas."""
        await self._request(
            lambda office: office.active.offline_replicas(broker, broker_epoch, partitions)
        )

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """A broker is about to stop: others lead. Returns what it still leads."""
        return await self._request(
            lambda office: office.active.controlled_shutdown(broker, broker_epoch)
        )

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        """Returns a block of producer ids for a broker."""
        return await self._request(lambda office: office.active.next_producer_id_block(broker))

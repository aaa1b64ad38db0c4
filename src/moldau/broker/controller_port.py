"""The way to the controller, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from moldau.controller import (
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
from moldau.model import ElectionType, TopicPartition

SOON_S: Final = 5.0
"""Seconds for what clients wait for without knowing that the controller is asked: less than what
any of them has, so that it gets an error to try again after, and not no answer.
"""


class ControllerClient(Protocol):
    """What a broker asks of the controller. ``moldau.controller.Controller`` is one, for a broker
    that may be in charge itself; another may carry requests to whoever is.

    Requests and results are plain data. Every method may raise KafkaError: NOT_CONTROLLER while
    nobody known here is in charge, REQUEST_TIMED_OUT if no answer came, KAFKA_STORAGE_ERROR if the
    controller cannot write. After the last two the request may have been carried out or not. All
    three are codes that clients try again after.
    """

    def within(self, seconds: float) -> ControllerClient:
        """Returns the same for a request that has so much time to find whoever is in charge."""
        ...

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[CreateTopicResult]:
        """Returns when the topics can be used: one result per name, in order."""
        ...

    async def auto_create(
        self, names: Sequence[str], *, mutator: Mutator | None = None
    ) -> list[CreateTopicResult]:
        """Topics with the default counts, for names that a client mentioned."""
        ...

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[TopicResult]: ...

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, mutator: Mutator | None = None
    ) -> list[DeleteTopicResult]:
        """Raises TOPIC_DELETION_DISABLED where that is so."""
        ...

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ConfigResult]:
        """Changes what is stored, as it is when the controller gets to it; each resource succeeds
        or fails alone, and each has its result, in order.
        """
        ...

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        """Elects leaders where they are not those that are wanted; None asks for every partition.
        Each has its result, in order.
        """
        ...

    async def alter_reassignments(
        self, targets: Sequence[NewReplicas], *, allow_replication_factor_change: bool = True
    ) -> list[PartitionResult]:
        """Moves replicas to other brokers; each partition has its result, in order."""
        ...

    async def ongoing_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> list[OngoingReassignment]:
        """Returns which of these partitions, or of all, are on the move."""
        ...

    async def alter_client_quotas(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> list[ClientQuotaResult]:
        """Returns one result per entity; what is valid is stored together."""
        ...

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        """Producer ids for that broker alone."""
        ...

    async def offline_replicas(
        self, broker: int, broker_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """That broker's disk failed under these replicas."""
        ...

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """That broker is about to stop: others lead what it led, and it is in sync with nothing.
        Returns what it still leads though others could, once in sync; raises STALE_BROKER_EPOCH.
        """
        ...

    async def alter_partitions(
        self, broker: int, broker_epoch: int, requests: Sequence[AlterPartition]
    ) -> list[AlterPartitionResult]:
        """A leader's changes of its in-sync replicas; raises STALE_BROKER_EPOCH."""
        ...

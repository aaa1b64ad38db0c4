"""Controllers that a test plays: one whose updates a broker obeys, and one that is out of reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.support.memory_broker import MemoryBroker

from moldau.broker.link import LocalLink
from moldau.controller import BrokerUpdate, LeaderAndIsr, MetadataUpdate, ReplicaError
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode, KafkaError

HERE, ELSEWHERE = 1, 2
LIFE = 7
"""The broker's epoch."""
TOPIC_ID = UUID(int=40)
REGISTRATION = BrokerRegistration(HERE, (Endpoint("PLAINTEXT", "memory", 9092),), None)


def led(
    topic: str = "t",
    partition: int = 0,
    *,
    leader: int = HERE,
    epoch: int = 0,
    isr: Sequence[int] = (),
    topic_id: UUID = TOPIC_ID,
) -> LeaderAndIsr:
    return LeaderAndIsr(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=tuple(isr) or (leader,),
        replicas=(HERE, ELSEWHERE),
        partition_epoch=epoch,
        controller_epoch=5,
        is_new=True,
    )


class Link:
    """The link of a broker, with the updates of a controller that a test plays."""

    def __init__(self, broker: MemoryBroker) -> None:
        parts = self.parts = broker.parts
        self.link = LocalLink(
            parts.configs,
            parts.client_quotas,
            parts.replicas,
            parts.metadata,
            parts.coordinators,
            parts.groups,
            lambda: self.life,
        )
        self.life = LIFE
        self.sequence = 0

    async def update(self, *states: LeaderAndIsr, **fields: object) -> list[ReplicaError]:
        """Send states and other changes, after everything there is."""
        if self.sequence == 0:
            await self.send(metadata=self.everything_known())
        return await self.send(**{"metadata": MetadataUpdate(partitions=states), **fields})

    async def everything(self, *states: LeaderAndIsr, **fields: object) -> list[ReplicaError]:
        """Send all there is."""
        metadata = MetadataUpdate(partitions=states, full=True, full_ends=True)
        return await self.send(metadata=metadata, **fields)

    async def send(self, **fields: object) -> list[ReplicaError]:
        settings = {
            "controller_id": ELSEWHERE,
            "controller_epoch": 5,
            "broker_epoch": self.life,
            "sequence": self.sequence,
            **fields,
        }
        self.sequence += 1
        update = BrokerUpdate(**settings)  # type: ignore[arg-type]
        return list(await self.link.update(REGISTRATION, update))

    def everything_known(self) -> MetadataUpdate:
        """Returns what the broker knows from its own controller."""
        states = [
            LeaderAndIsr(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=index,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                replicas=state.replicas,
                partition_epoch=state.partition_epoch,
                controller_epoch=5,
            )
            for topic in self.parts.metadata.topics.values()
            for index, state in topic.partitions.items()
        ]
        brokers = tuple(self.parts.metadata.brokers.values())
        return MetadataUpdate(brokers=brokers, partitions=states, full=True, full_ends=True)


class Unreachable:
    """A controller that nobody gets an answer from."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def within(self, _seconds: float) -> Unreachable:
        return self

    def __getattr__(self, _name: str) -> Any:
        async def refuse(*_: object, **__: object) -> Any:
            raise KafkaError(self._code, "for this test")

        return refuse


def lose_controller(broker: MemoryBroker, code: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
    broker.parts.controller = Unreachable(code)

"""A cluster of controllers on one embedded store, with brokers that apply what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import ParamSpec, TypeVar
from uuid import UUID

import msgspec
from tests.support.memory_storage import MemoryStorage

from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.config.types import ResourceType
from moldau.controller import (
    AlterPartition,
    AlterPartitionResult,
    BrokerUpdate,
    ConfigAlteration,
    Controller,
    ControllerFence,
    ControllerSettings,
    LeaderAndIsr,
    ReplicaError,
)
from moldau.controller.courier import FIRST_RETRY_S
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import StoreUnavailableError
from moldau.coordination.latch import Latch
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuotaEntity
from moldau.testing.clock import ManualClock

P = ParamSpec("P")
T = TypeVar("T")


async def run_here(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Instead of a thread: another turn of the loop, so that every run is the same."""
    await asyncio.sleep(0)
    return work(*args, **kwargs)


async def set_configs(
    controller: Controller, kind: ResourceType, name: str, settings: Mapping[str, str]
) -> None:
    """Replace all settings of a topic, broker or group; raises KafkaError."""
    (result,) = await controller.alter_configs(
        [
            ConfigAlteration(
                resource_type=kind,
                resource_name=name,
                changes=[
                    Alteration(key, AlterOperation.SET, value) for key, value in settings.items()
                ],
                replaces_all=True,
            )
        ]
    )
    if result.error:
        raise KafkaError(result.error, result.message)


def isr_request(
    state: LeaderAndIsr, new_isr: tuple[int, ...], epochs: tuple[int, ...] = ()
) -> AlterPartition:
    """What a leader asks for that knows this state of its partition."""
    return AlterPartition(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=new_isr,
        new_isr_epochs=epochs,
    )


class Broker:
    """What a broker remembers of the controller's messages, applied as the contract says."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self.id = broker_id
        self.updates: list[BrokerUpdate] = []
        self.fence = ControllerFence(broker_epoch)
        self.replicas: dict[tuple[str, int], LeaderAndIsr] = {}
        self.metadata: dict[tuple[str, int], LeaderAndIsr] = {}
        self.brokers: list[int] = []
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics_configs: dict[str, dict[str, str]] = {}
        self.client_quotas: dict[ClientQuotaEntity, dict[str, float]] = {}
        self.deleted: list[tuple[str, int]] = []
        self.failing: set[tuple[str, int]] = set()
        self.full = False
        """Whether no log can be made."""
        self.reachable = True
        self.running = asyncio.Event()
        """Not set while the broker is paused: it gets messages and does nothing."""
        self.running.set()
        self.delay_s = 0.0
        """For how long it is busy with a message."""

    def apply(self, update: BrokerUpdate) -> list[ReplicaError]:
        if not self.reachable:
            raise ConnectionError(f"broker {self.id} cannot be reached")
        self.fence.admit(update)
        self.fence.begin(update)
        self.fence.end()
        self.updates.append(update)
        self.topic_configs |= update.topic_configs
        self.broker_configs |= update.broker_configs
        self.group_configs |= update.group_configs
        self.client_metrics_configs |= update.client_metrics_configs
        self.client_quotas |= {one.entity: one.quotas for one in update.client_quotas}
        errors: list[ReplicaError] = []
        for stop in update.stop_replicas:
            key = (stop.topic, stop.partition)
            if key in self.failing:
                errors.append(ReplicaError(*key, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            self.replicas.pop(key, None)
            if stop.delete:
                self.deleted.append(key)
        for state in update.metadata.partitions:
            key = (state.topic, state.partition)
            if self.id not in state.replicas:
                continue
            if key in self.failing or (self.full and key not in self.replicas):
                errors.append(ReplicaError(*key, ErrorCode.KAFKA_STORAGE_ERROR))
            elif (
                key not in self.replicas or not state.leader_epoch < self.replicas[key].leader_epoch
            ):
                self.replicas[key] = msgspec.structs.replace(state, is_new=False)
        self._learn(update)
        return errors

    def _learn(self, update: BrokerUpdate) -> None:
        metadata = update.metadata
        if metadata.full:
            self.metadata.clear()
        if metadata.brokers is not None:
            self.brokers = sorted(one.id for one in metadata.brokers)
        for state in metadata.partitions:
            known = msgspec.structs.replace(state, is_new=False)
            self.metadata[state.topic, state.partition] = known
        for removed in metadata.removed_topics:
            for key in [key for key in self.metadata if key[0] == removed.name]:
                del self.metadata[key]


class ClusterClock(ManualClock):
    """No two looks at the wall clock find the same time; the other one a test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_ms = super().now_ms()

    def now_ms(self) -> int:
        self.wall_ms += 1
        return self.wall_ms


class Cluster:
    """Opens brokers with a controller each; is the link between them."""

    def __init__(
        self, disk: MemoryStorage | None = None, clock: ClusterClock | None = None
    ) -> None:
        self.disk = disk or MemoryStorage()
        self.settings = ControllerSettings()
        self.brokers: dict[int, Broker] = {}
        self.controllers: dict[int, Controller] = {}
        self.sessions: dict[int, EmbeddedSession] = {}
        """The last one of each broker."""
        self.losses: Random | None = None
        """Draws which messages and answers are lost, if any are."""
        self.deaf: set[int] = set()
        """Brokers whose answers are lost."""
        self.lost: list[int] = []
        self.lives: dict[int, int] = {}
        """The present one of each broker that is up."""
        self.intact_since: dict[int, int] = {}
        """The life of each broker since which it has lost nothing."""
        self.ids = 0
        self._next_life = 0
        self.clock = clock or ClusterClock()
        self._store: EmbeddedStore | None = None

    @property
    def store(self) -> EmbeddedStore:
        assert self._store is not None
        return self._store

    async def open(self) -> None:
        self._store = await EmbeddedStore.open(self.disk, run_here, self.clock.now_ms)

    async def alter_isr(self, state: LeaderAndIsr, *new_isr: int) -> AlterPartitionResult:
        """The leader of a partition asks for other in-sync replicas, as they live now."""
        epochs = tuple([self.controllers[replica].broker_epoch for replica in new_isr])
        (result,) = await self.active.alter_partitions(
            state.leader,
            self.controllers[state.leader].broker_epoch,
            [isr_request(state, new_isr, epochs)],
        )
        return result

    def new_topic_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    async def update(
        self, broker: BrokerRegistration, update: BrokerUpdate
    ) -> Sequence[ReplicaError]:
        recipient = self.brokers[broker.id]
        await recipient.running.wait()
        if recipient.delay_s:
            await Latch().wait(self.clock, recipient.delay_s)
        if self.losses is not None and self.losses.random() < 0.2:
            raise ConnectionError(f"a message to broker {broker.id} is lost")
        answer = recipient.apply(update)
        if broker.id in self.deaf or (self.losses is not None and self.losses.random() < 0.2):
            raise ConnectionError(f"the answer of broker {broker.id} is lost")
        return answer

    async def start(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        host: str | None = None,
        has_lost: bool = False,
    ) -> Controller:
        """``has_lost``: the broker comes back without its latest records."""
        if self._store is None:
            await self.open()
        self.brokers[broker_id] = Broker(broker_id, lambda: controller.broker_epoch)
        life = self.lives[broker_id] = self._next_life = self._next_life + 1
        endpoint = Endpoint("PLAINTEXT", host or f"host{broker_id}", 9092)

        if has_lost:
            self.intact_since.pop(broker_id, None)

        async def describe() -> BrokerRegistration:
            intact_since = self.intact_since.get(broker_id, -1)
            return BrokerRegistration(broker_id, (endpoint,), rack, intact_since=intact_since)

        controller = self.controllers[broker_id] = Controller(
            broker_id,
            partial(self.session, broker_id, life),
            describe,
            self,
            self.settings,
            clock=self.clock,
            random=Random(broker_id),
            new_topic_id=self.new_topic_id,
            on_session_lost=lambda: self.lost.append(broker_id),
        )
        await controller.start()
        self.intact_since.setdefault(broker_id, controller.broker_epoch)
        await self.settle()
        return controller

    def session(self, broker_id: int, life: int) -> EmbeddedSession:
        """Returns another session of a broker: a dead one gets none."""
        if self.lives.get(broker_id) != life:
            raise StoreUnavailableError(f"broker {broker_id} is dead")
        session = self.sessions[broker_id] = self.store.session()
        return session

    async def kill(self, broker_id: int) -> None:
        """The broker's session expires, as if its process had died."""
        self.brokers[broker_id].reachable = False
        await self.expire(broker_id)
        await self.settle()

    async def expire(self, broker_id: int) -> None:
        """The same, before any controller has looked."""
        del self.lives[broker_id]
        await self.store.expire(self.sessions[broker_id])

    async def lose_session(self, broker_id: int) -> None:
        """The broker's session expires, and it lives on."""
        await self.store.expire(self.sessions[broker_id])
        await self.settle()

    async def stop(self, broker_id: int) -> None:
        self.brokers[broker_id].reachable = False
        del self.lives[broker_id]
        await self.controllers.pop(broker_id).stop()
        await self.settle()

    async def settle(self) -> None:
        """Let every controller deal with what it noticed, and with what that caused."""
        for _ in range(5):
            for controller in self.controllers.values():
                await controller.settled()
            # A broker may be told something before it knows that it is registered.
            self.clock.advance(2 * FIRST_RETRY_S)

    @property
    def active(self) -> Controller:
        (controller,) = [one for one in self.controllers.values() if one.is_active]
        return controller

    async def crash(self) -> Cluster:
        """The whole process dies; another one starts on what was on disk."""
        after = Cluster(MemoryStorage(self.disk.files), self.clock)
        after.ids = self.ids
        after.intact_since = dict(self.intact_since)
        return after

"""Several brokers on one coordination store, and whether everything is right with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from moldau.broker.broker import Broker
from moldau.controller.loading import load_brokers, load_stored
from moldau.controller.stray_topics import StoredTopic
from moldau.controller.topic_names import is_internal
from moldau.coordination import paths, znodes
from moldau.coordination.store import CoordinationStore
from moldau.coordination.znodes import BrokerRegistration, StateNode
from moldau.model import TopicPartition
from moldau.replication.partition import Partition
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.coordination import SimulatedEnsemble
from moldau.testing.simulation.errors import SimulationError
from moldau.testing.simulation.simulation import Simulation

SESSION_TIMEOUT: Final = 3.0
"""Seconds of silence after which the store takes a broker for dead."""
LATE: Final = 2.0
"""Seconds after which followers know what is committed, if nothing comes meanwhile."""
PATIENCE: Final = 120.0
"""Virtual seconds within which everything comes right when nothing is wrong any more."""

SETTINGS: Final[Mapping[str, object]] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 2,
    "replica.lag.time.max.ms": 3_000,
    "replica.fetch.wait.max.ms": 500,
    "replica.socket.timeout.ms": 3_000,
    "controller.socket.timeout.ms": 3_000,
    "zookeeper.session.timeout.ms": int(SESSION_TIMEOUT * 1000),
    "auto.create.topics.enable": "false",
}
"""What a simulated cluster has where nothing else is asked for: every record on three brokers, and
times that are short beside a life.
"""

_Key: TypeAlias = tuple[TopicPartition, UUID | None]
_Belief: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Leader, leader epoch, in-sync replicas, replicas."""


class NotRightError(SimulationError):
    """Something did not come right in time."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The cluster as its store describes it."""

    controller_id: int
    """-1 for none."""
    brokers: Mapping[int, BrokerRegistration]
    topics: Mapping[str, StoredTopic]
    deleting: frozenset[str]

    def states(self) -> Iterator[tuple[TopicPartition, StateNode]]:
        """All partitions of topics that stay, with who leads them."""
        for name, topic in self.topics.items():
            if name not in self.deleting:
                for number, (state, _) in sorted(topic.states.items()):
                    yield TopicPartition(name, number), state

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.topics[partition.topic].node.partitions[partition.partition]


class SimulatedCluster:
    """Brokers 1, 2, 3 … of one cluster, each a node of its own, and the store that they share."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        session_timeout: float = SESSION_TIMEOUT,
    ) -> None:
        self._simulation = simulation
        self.ensemble = SimulatedEnsemble(simulation, session_timeout=session_timeout)
        common = {
            **SETTINGS,
            "default.replication.factor": min(3, brokers),
            "min.insync.replicas": min(2, brokers),
            "offsets.topic.replication.factor": min(3, brokers),
            "zookeeper.session.timeout.ms": int(session_timeout * 1000),
            **(settings or {}),
        }
        self.brokers: dict[int, SimulatedBroker] = {
            node_id: SimulatedBroker(
                simulation, node_id, common, open_coordination=self.ensemble.open
            )
            for node_id in range(1, brokers + 1)
        }
        """By id."""
        self._ends: dict[TopicPartition, tuple[int, float]] = {}
        self.bootstrap_servers = ",".join(
            broker.bootstrap_servers for broker in self.brokers.values()
        )

    def __getitem__(self, node_id: int) -> SimulatedBroker:
        return self.brokers[node_id]

    # Lives ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the store and all brokers; returns when clients may come to each of them."""
        await self.ensemble.start()
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))

    async def stop(self) -> None:
        """End all brokers as SIGTERM does, one after the other."""
        for broker in self.brokers.values():
            await broker.stop()

    # Who is who ----------------------------------------------------------------------------------

    @property
    def running(self) -> dict[int, Broker]:
        """The parts of the brokers that have started and not ended."""
        return {
            node_id: broker.server.broker
            for node_id, broker in self.brokers.items()
            if broker.is_running and broker.server is not None
        }

    async def stored(self) -> Stored:
        """Returns what the store holds."""
        return await self.ensemble.node.run(self._read_store())

    async def _read_store(self) -> Stored:
        store: CoordinationStore = self.ensemble.store.session()
        try:
            (controller,) = await store.get_many([paths.CONTROLLER])
            found = await load_stored(store)
            return Stored(
                -1 if controller is None else znodes.decode_controller(controller[0]),
                await load_brokers(store, None),
                found.topics,
                frozenset(found.deleting),
            )
        finally:
            await store.close()

    async def controller(self) -> SimulatedBroker | None:
        """Returns the broker that the store says is the controller."""
        return self.brokers.get((await self.stored()).controller_id)

    async def leader_of(self, topic: str, partition: int = 0) -> SimulatedBroker | None:
        """Returns the broker that the store says leads a partition."""
        found = (await self.stored()).topics.get(topic)
        if found is None or partition not in found.states:
            return None
        return self.brokers.get(found.states[partition][0].leader)

    def replica(self, node_id: int, topic: str, partition: int = 0) -> Partition | None:
        """Returns a broker's replica of a partition, if it runs and serves one."""
        broker = self.running.get(node_id)
        return None if broker is None else broker.replicas.topics.get(topic, {}).get(partition)

    # Waiting -------------------------------------------------------------------------------------

    async def all_in(self, within: float = PATIENCE) -> None:
        """Wait until every broker is registered, and knows all others and the controller."""
        await self.until(self.not_in, within)

    async def converged(self, within: float = PATIENCE) -> None:
        """Wait until every broker knows of topics and leaders what the store says."""
        await self.until(self.not_converged, within)

    async def in_sync(self, within: float = PATIENCE) -> None:
        """Wait until every partition is led, and every replica in sync: whatever was acknowledged
        before at ``acks=all`` is on each of them then.
        """
        await self.until(self.not_in_sync, within)

    async def replicated(self, within: float = PATIENCE) -> None:
        """Wait until besides every replica is as long as its leader's, and knows that; but for
        internal topics, which are written to at any time.
        """
        await self.until(self.not_replicated, within)

    async def right(self, within: float = PATIENCE) -> None:
        """Wait until all of this is so at once."""

        async def wrong() -> list[str]:
            return [*await self.not_in(), *await self.not_converged(), *await self.not_replicated()]

        await self.until(wrong, within)

    async def until(self, wrong: Callable[[], Awaitable[list[str]]], within: float) -> None:
        """Wait until nothing is wrong; raises NotRightError with what is after so long."""
        deadline = self._simulation.time + within
        while found := await wrong():
            if self._simulation.time >= deadline:
                raise NotRightError("; ".join(found[:10]))
            await asyncio.sleep(0.1)

    # What is not as it should be, in words -------------------------------------------------------

    async def not_in(self) -> list[str]:
        stored = await self.stored()
        wrong = [
            f"broker {each} is not registered" for each in self.brokers.keys() - stored.brokers
        ]
        running = self.running
        if stored.controller_id not in running:
            wrong.append(f"the controller is {stored.controller_id}")
        for node_id, broker in running.items():
            metadata = broker.metadata
            known = {each.id: each.epoch for each in metadata.brokers.values()}
            told = {each.id: each.epoch for each in stored.brokers.values()}
            if known != told:
                wrong.append(f"broker {node_id} knows the brokers {known}, not {told}")
            if metadata.controller_id != stored.controller_id:
                wrong.append(f"broker {node_id} takes {metadata.controller_id} for the controller")
        return sorted(wrong)

    async def not_converged(self) -> list[str]:
        stored = await self.stored()
        expected: dict[_Key, _Belief] = {
            (partition, stored.topics[partition.topic].node.topic_id): (
                state.leader,
                state.leader_epoch,
                tuple(sorted(state.isr)),
                stored.replicas(partition),
            )
            for partition, state in stored.states()
        }
        wrong = [f"{name} is still being deleted" for name in sorted(stored.deleting)]
        for node_id, broker in self.running.items():
            known: dict[_Key, _Belief] = {
                (TopicPartition(topic.name, number), topic.topic_id): (
                    state.leader,
                    state.leader_epoch,
                    tuple(sorted(state.isr)),
                    state.replicas,
                )
                for topic in broker.metadata.topics.values()
                for number, state in topic.partitions.items()
            }
            wrong += (
                f"broker {node_id} believes of {key[0]} {known.get(key)}, not {expected.get(key)}"
                for key in sorted(known.keys() | expected.keys(), key=str)
                if known.get(key) != expected.get(key)
            )
        return wrong

    async def not_replicated(self) -> list[str]:
        wrong = await self.not_in_sync()
        if not wrong:
            stored = await self.stored()
            for partition, state in stored.states():
                if is_internal(partition.topic):
                    continue
                wrong += self._not_level(partition, state.leader, stored.replicas(partition))
        return wrong

    async def not_in_sync(self) -> list[str]:
        stored = await self.stored()
        wrong = []
        for partition, state in stored.states():
            replicas = stored.replicas(partition)
            if state.leader not in self.running:
                wrong.append(f"{partition} is led by {state.leader}")
            elif set(state.isr) != set(replicas):
                wrong.append(f"{partition} has only {state.isr} of {replicas} in sync")
        return wrong

    def _not_level(
        self, partition: TopicPartition, leader: int, replicas: tuple[int, ...]
    ) -> list[str]:
        found = {each: self.replica(each, *partition) for each in replicas}
        missing = [each for each, replica in found.items() if replica is None]
        if missing:
            return [f"{partition} is not served by {missing}"]
        ends = {
            each: (replica.high_watermark, replica.log.log_end_offset)
            for each, replica in found.items()
            if replica is not None
        }
        end = ends[leader][1] if leader in ends else -1
        known, since = self._ends.get(partition, (-1, 0.0))
        if end != known:
            since = self._simulation.time
            self._ends[partition] = end, since
        # What is committed is told with the next answer: where something comes all the time,
        # followers are always a little late.
        grows = self._simulation.time - since < LATE
        if all(
            pair == (end, end) or (grows and each != leader and pair[1] == end)
            for each, pair in ends.items()
        ):
            return []
        return [f"{partition} has high watermarks and ends {ends}, led by {leader}"]

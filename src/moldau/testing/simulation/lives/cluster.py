"""The life of three brokers and their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from moldau.coordination import paths, znodes
from moldau.testing.simulation.checker.history import LostSession
from moldau.testing.simulation.checker.replicas import DISAGREEMENT, LEFT_OVER, OUT_OF_SYNC
from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.cluster import PATIENCE, NotRightError, SimulatedCluster
from moldau.testing.simulation.cluster_nemesis import ClusterNemesis
from moldau.testing.simulation.lives.cluster_plan import draw_cluster
from moldau.testing.simulation.lives.life import Life
from moldau.testing.simulation.lives.plan import Plan
from moldau.testing.simulation.lives.replica_watch import ReplicaWatch
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.recreating import RecreatingActor
from moldau.testing.simulation.remote_session import RemoteSession

BROKERS = 3


class ClusterLife(Life):
    """``adjust`` makes of the plan that the seed draws the one that is lived."""

    def __init__(
        self,
        seed: int,
        *,
        keep_events: bool = False,
        adjust: Callable[[Plan], Plan] = lambda plan: plan,
    ) -> None:
        troubles = list(ClusterNemesis.CLUSTER_TROUBLES)
        super().__init__(
            seed, lambda random: adjust(draw_cluster(random, troubles)), keep_events=keep_events
        )
        self.history.brokers = BROKERS
        self.history.truces.clear()
        settings = dict(self.plan.broker_settings)
        del settings["zookeeper.session.timeout.ms"]
        self.cluster = SimulatedCluster(self.simulation, BROKERS, settings)
        for broker in self.cluster.brokers.values():
            broker.node.slowest_work = self.plan.disk_delay
        self.cluster.ensemble.on_silence = self._silent
        self._watch = ReplicaWatch(self.cluster, self.history)
        self._recreating = RecreatingActor(
            self.simulation,
            "recreating",
            self.history,
            self.bootstrap_servers,
            is_known=self._is_known,
        )

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    async def _start(self) -> None:
        await self.cluster.start()
        await self.cluster.all_in()
        self._watch.begin()

    def _nemesis(self, actors: Sequence[Actor]) -> ClusterNemesis:
        return ClusterNemesis(self.simulation, self.history, self.cluster, actors)

    def _others(self) -> list[Actor]:
        return [self._recreating] if self.plan.recreates else []

    # Peace ---------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Everything is led, and everybody in sync, although clients go on."""

        async def wrong() -> list[str]:
            return [*await self.cluster.not_in(), *await self.cluster.not_in_sync()]

        await self._right(OUT_OF_SYNC, wrong)

    async def _calm(self) -> None:
        if self._recreating.done:
            self.partitions += self._recreating.partitions
        await self._right(DISAGREEMENT, self.cluster.not_converged)
        await self._right(OUT_OF_SYNC, self.cluster.not_replicated)
        self.history.truces.append((self.simulation.time, float("inf")))
        await asyncio.sleep(3.0)  # for those who look at topics and groups

    async def _right(self, invariant: str, wrong: Callable[[], Awaitable[list[str]]]) -> None:
        try:
            await self.cluster.until(wrong, PATIENCE)
        except NotRightError as error:
            self._broken.append(Violation(invariant, str(error), at=self.simulation.time))

    async def _look_inside(self) -> None:
        self._watch.end()
        self._broken += self._watch.checker.violations
        topics = (await self.cluster.stored()).topics
        known = {name: topic.node.topic_id for name, topic in topics.items()}
        for node_id, broker in self.cluster.running.items():
            for replicas in broker.replicas.topics.values():
                for replica in replicas.values():
                    if known.get(replica.topic_partition.topic) != replica.topic_id:
                        sentence = f"broker {node_id} serves {replica.topic_partition}"
                        self._broken.append(Violation(LEFT_OVER, sentence, replica.topic_partition))

    def _silent(self, session: RemoteSession) -> None:
        ensemble = self.cluster.ensemble
        lost = LostSession(
            self.simulation.time, session.client, ensemble.session_timeout, ensemble.began_at
        )
        self.history.lost_sessions.append(lost)

    def _is_known(self, topic: str) -> bool:
        """Whether every broker that runs knows the topic that the store has under a name."""
        ensemble = self.cluster.ensemble
        nodes = ensemble.store.tree.nodes if ensemble.is_running else {}
        node = nodes.get(paths.topic(topic))
        if node is None or paths.delete_topic(topic) in nodes:
            return False
        topic_id = znodes.decode_topic(topic, node.data).topic_id
        return all(
            topic in broker.metadata.topics and broker.metadata.topics[topic].topic_id == topic_id
            for broker in self.cluster.running.values()
        )

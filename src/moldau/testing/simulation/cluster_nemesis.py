"""Who makes trouble for a cluster: for leaders, the controller, coordinators, and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from moldau.coordination import paths
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.cluster import NotRightError, SimulatedCluster
from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.nemesis import Nemesis
from moldau.testing.simulation.simulation import Simulation

CATCHES_UP_WITHIN: Final = 15.0
"""Seconds that a power cut waits for all replicas to be in sync; else there is none."""


class ClusterNemesis(Nemesis):
    """Keeps to the promise: where records are not synced, no second broker loses power before the
    first has caught up.
    """

    def __init__(
        self,
        simulation: Simulation,
        history: History,
        cluster: SimulatedCluster,
        actors: Sequence[Actor],
    ) -> None:
        self._cluster = cluster
        self._power = asyncio.Lock()
        self._store = asyncio.Lock()
        self._starting: dict[SimulatedBroker, asyncio.Task[bool]] = {}
        super().__init__(simulation, history, cluster[1], actors, cluster.ensemble)

    CLUSTER_TROUBLES: ClassVar[dict[str, Callable[[ClusterNemesis], Awaitable[None]]]] = {}
    """All that may be done, by name."""
    CONDITIONS: ClassVar[frozenset[str]] = Nemesis.CONDITIONS | {
        "kill", "kill several", "power cut", "clean restart", "pause", "isolate", "two leaders",
        "out of earshot", "slow link", "coordination killed", "controller deposed", "full disk",
        "failing disk",
    }  # fmt: skip

    def _all_brokers(self) -> Sequence[SimulatedBroker]:
        return list(self._cluster.brokers.values())

    def _victim(self) -> SimulatedBroker:
        """Mostly one that matters: a leader, the controller, a coordinator."""
        brokers = self._cluster.brokers
        wanted = self._random.choice(["any", "controller", "orders", "__consumer_offsets"])
        found = []
        for known in (broker.metadata for broker in self._cluster.running.values()):
            if wanted == "controller":
                found.append(known.controller_id)
            elif wanted in known.topics:
                found += (state.leader for state in known.topics[wanted].partitions.values())
        candidates = [brokers[each] for each in found if each in brokers]
        return self._random.choice(candidates or list(brokers.values()))

    def _work(self, name: str) -> Awaitable[None]:
        return self.CLUSTER_TROUBLES[name](self)

    async def _restart_if_expelled(self) -> None:
        """A broker whose session is over comes back by itself."""

    async def heal(self) -> None:
        self._cluster.ensemble.heal()
        async with self._store:
            await self._start_coordination()
        await super().heal()

    # Brokers -------------------------------------------------------------------------------------

    async def _start_broker(self, broker: SimulatedBroker) -> bool:
        """Who waits may be called off: a start goes on, and no other is begun beside it."""
        starting = self._starting.get(broker)
        if starting is None or starting.done():
            starting = asyncio.ensure_future(super()._start_broker(broker))
            self._starting[broker] = starting
        return await asyncio.shield(starting)

    async def kill_several(self) -> None:
        """Two or all of them at once; they come back one by one, in any order."""
        brokers = self._all_brokers()
        victims = self._random.sample(brokers, self._random.randrange(2, len(brokers) + 1))
        for broker in victims:
            broker.kill()
        for broker in victims:
            await asyncio.sleep(self._random.random() ** 2 * 4)
            self._tasks.append(asyncio.ensure_future(self._keep_starting(broker)))

    async def _keep_starting(self, broker: SimulatedBroker) -> None:
        await self._start_broker(broker)

    async def power_cut(self) -> None:
        if self._history.synced_always:
            await super().power_cut()
            return
        async with self._power:
            if await self._may_cut_power():
                await super().power_cut()

    async def crash_at_operation(self) -> None:
        async with self._power:
            await super().crash_at_operation()

    async def _may_cut_power(self) -> bool:
        """Whether every replica is in sync, at this moment; or nothing can be lost.

        Who holds the lock may then cut the power of one broker, now or later.
        """
        if self._history.synced_always:
            return True
        try:
            await self._cluster.in_sync(CATCHES_UP_WITHIN)
        except (NotRightError, ProcessEnded):
            return False
        self._history.caught_up.append(self._simulation.time)
        return True

    async def strand(self) -> None:
        """Take the others from a broker until it may be alone in sync, then cut its power."""
        async with self._power:
            if not await self._may_cut_power():
                return
            victim = self._victim()
            others = [each for each in self._all_brokers() if each is not victim]
            for other in others:
                if self._random.random() < 0.5:
                    other.kill()
                else:
                    self._network.cut(victim.node.name, other.node.name)
            await asyncio.sleep(2 + self._random.random() * 6)
            victim.power_cut()
            self._network.heal()
            brokers = [victim, *others]
            self._random.shuffle(brokers)
            for broker in brokers:
                await asyncio.sleep(self._random.random() * 3)
                self._tasks.append(asyncio.ensure_future(self._keep_starting(broker)))

    async def full_disk(self) -> None:
        broker = self._victim()
        disk = broker.node.disk
        disk.capacity = disk.used + self._random.randrange(20_000)
        await asyncio.sleep(self._random.random() * 4)
        self._heal_disk(broker)
        # A replica that had no room to be made is offline until the next start.
        await self._restart(broker)

    async def roll(self) -> None:
        """Restart one after the other, as an upgrade does."""
        for broker in self._all_brokers():
            await self._restart(broker)

    async def make_truce(self) -> None:
        """Let everything come right for a moment, in which every broker tells the truth."""
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        try:
            await self._cluster.right(CATCHES_UP_WITHIN)
        except (NotRightError, ProcessEnded):
            return
        begin = self._simulation.time
        await asyncio.sleep(self._random.random() * 3)
        self._history.truces.append((begin, self._simulation.time))

    # The network ---------------------------------------------------------------------------------

    async def isolate(self) -> None:
        """Cut a broker off: from brokers, clients, the store, or several of these."""
        victim = self._victim().node.name
        kinds = self._random.sample(["brokers", "clients", "store"], self._random.randrange(1, 4))
        seconds = self._random.random() ** 2 * 12
        others: list[str] = []
        if "brokers" in kinds:
            others += (each.node.name for each in self._all_brokers() if each.node.name != victim)
        if "clients" in kinds:
            others += (actor.name for actor in self._actors)
        if "store" in kinds:
            self._cluster.ensemble.isolate(victim, seconds)
        way = self._random.choice(["both", "there", "back"])
        for other in others:
            source, target = (other, victim) if way == "back" else (victim, other)
            self._network.cut(source, target, both_ways=way == "both")
        await asyncio.sleep(seconds)
        self._network.heal()

    async def deafen(self) -> None:
        """A broker whose session lives does not hear the controller until what that had to say is
        given up.
        """
        known = [each.metadata.controller_id for each in self._cluster.running.values()]
        controller = self._random.choice(known or [1])
        others = [each for number, each in self._cluster.brokers.items() if number != controller]
        if controller in self._cluster.brokers:
            victim = self._random.choice(others).node.name
            self._network.cut(self._cluster[controller].node.name, victim)
        await asyncio.sleep(3 + self._random.random() * 4)
        self._network.heal()

    async def part_leader(self) -> None:
        """Cut a broker off from the others and the store, so that another leads what it does; its
        clients go on sending to it. Then whoever leads may die before they agree.
        """
        victim = self._victim().node.name
        seconds = 4 + self._random.random() * 6
        self._cluster.ensemble.isolate(victim, seconds)
        for other in self._all_brokers():
            if other.node.name != victim:
                self._network.cut(victim, other.node.name)
        await asyncio.sleep(seconds)
        self._network.heal()
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * 2)
            await self.kill()

    async def reset_peers(self) -> None:
        """Break the connections between two brokers."""
        first, second = self._random.sample(self._all_brokers(), 2)
        self._network.reset_connections(first.node.name, second.node.name)

    async def slow_link(self) -> None:
        first, second = self._random.sample(self._all_brokers(), 2)
        self._network.slow(first.node.name, second.node.name, self._random.random() * 2)
        await asyncio.sleep(self._random.random() * 6)
        self._network.heal()

    # The store -----------------------------------------------------------------------------------

    async def expire_session(self) -> None:
        with suppress(ProcessEnded):  # the store is down
            await super().expire_session()

    async def expire_one_session(self) -> None:
        ensemble = self._cluster.ensemble
        if ensemble.sessions:
            with suppress(ProcessEnded):
                await self._random.choice(ensemble.sessions).expire()
        await asyncio.sleep(self._random.random() * 3)

    async def depose_controller(self) -> None:
        """An operator deletes the controller's node, so that another is elected (Kafka's own advice
        where one hangs); the one that had the office hears of it late, and goes on meanwhile.
        """
        ensemble = self._cluster.ensemble
        with suppress(ProcessEnded):
            controller = await self._cluster.controller()
            if controller is None:
                return
            ensemble.delay_answers(controller.node.name, self._random.random() * 4)
            await ensemble.delete(paths.CONTROLLER)
        await asyncio.sleep(self._random.random() * 4)
        ensemble.hear_in_time()

    async def kill_coordination(self) -> None:
        """Kill the store's process, or cut its power; it is started again."""
        ensemble = self._cluster.ensemble
        async with self._store:
            how = self._random.choice([ensemble.kill, ensemble.power_cut])
            how()
            await asyncio.sleep(self._random.random() * 5)
            await self._start_coordination()

    async def _start_coordination(self) -> None:
        if not self._cluster.ensemble.is_running:
            await self._cluster.ensemble.start()


ClusterNemesis.CLUSTER_TROUBLES.update(
    {
        "kill": ClusterNemesis.kill,
        "kill several": ClusterNemesis.kill_several,
        "power cut": ClusterNemesis.power_cut,
        "power cut of the last in sync": ClusterNemesis.strand,
        "crash at an operation": ClusterNemesis.crash_at_operation,
        "clean restart": ClusterNemesis.restart,
        "rolling restart": ClusterNemesis.roll,
        "pause": ClusterNemesis.pause,
        "slow disk": ClusterNemesis.slow_disk,
        "full disk": ClusterNemesis.full_disk,
        "failing disk": ClusterNemesis.failing_disk,
        "isolate": ClusterNemesis.isolate,
        "out of earshot": ClusterNemesis.deafen,
        "two leaders": ClusterNemesis.part_leader,
        "truce": ClusterNemesis.make_truce,
        "cut": ClusterNemesis.cut,
        "reset": ClusterNemesis.reset,
        "reset between brokers": ClusterNemesis.reset_peers,
        "slow network": ClusterNemesis.slow_network,
        "slow link": ClusterNemesis.slow_link,
        "coordination connection lost": ClusterNemesis.lose_coordination,
        "coordination slow": ClusterNemesis.slow_coordination,
        "coordination killed": ClusterNemesis.kill_coordination,
        "controller deposed": ClusterNemesis.depose_controller,
        "session expired": ClusterNemesis.expire_one_session,
        "all sessions expired": ClusterNemesis.expire_session,
        "kill a client": ClusterNemesis.kill_client,
        "pause a client": ClusterNemesis.pause_client,
        "clock": ClusterNemesis.set_clock,
    }
)

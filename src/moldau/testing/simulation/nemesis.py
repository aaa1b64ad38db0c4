"""Who makes trouble: draws what goes wrong, does it, and after a while undoes it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import ClassVar, Final

from moldau.coordination import journal, loading
from moldau.coordination.storage import DiskStorage
from moldau.testing.disk import MemoryDisk
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.checker.crash import Crash
from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.coordination import SimulatedEnsemble
from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.simulation import Simulation

_DATA: Final = "/data"
_DAY_MS: Final = 86_400_000


class Nemesis:
    """Troubles a broker and its clients; ``ClusterNemesis`` picks one of several each time."""

    def __init__(
        self,
        simulation: Simulation,
        history: History,
        broker: SimulatedBroker,
        actors: Sequence[Actor],
        ensemble: SimulatedEnsemble | None = None,
    ) -> None:
        self._simulation = simulation
        self._network = simulation.network
        self._history = history
        self._broker = broker
        self._actors = actors
        self._ensemble = ensemble
        for each in self._all_brokers():
            each.node.on_crash = partial(self._crashed, each)
        self._random: Random = simulation.new_random("nemesis")
        self._usual_delay = simulation.network.quality.longest
        self._usual_work = broker.node.slowest_work
        self._tasks: list[asyncio.Task[None]] = []

    TROUBLES: ClassVar[dict[str, Callable[[Nemesis], Awaitable[None]]]] = {}
    """All that may be done, by name."""
    COORDINATION_TROUBLES: ClassVar[dict[str, Callable[[Nemesis], Awaitable[None]]]] = {}
    """What may be done besides where the coordination store is elsewhere."""
    DAMAGES: ClassVar[dict[str, Callable[[Nemesis], Awaitable[None]]]] = {}
    """What is drawn besides, in some lives: damage to what only the broker itself should touch."""
    CONDITIONS: ClassVar[frozenset[str]] = frozenset({"slow disk", "cut", "slow network"})
    """Those that last for a while, so that others may come on top of them."""

    def _all_brokers(self) -> Sequence[SimulatedBroker]:
        return [self._broker]

    def _victim(self) -> SimulatedBroker:
        """Returns the broker that something is done to."""
        return self._broker

    def _work(self, name: str) -> Awaitable[None]:
        return (self.TROUBLES | self.COORDINATION_TROUBLES | self.DAMAGES)[name](self)

    async def trouble(self, seconds: float, names: Sequence[str]) -> None:
        """Make these troubles for so long, one after the other or upon the other."""
        end = self._simulation.time + seconds
        while self._simulation.time < end:
            await asyncio.sleep(self._random.random() * 3)
            name = self._random.choice(names)
            self._simulation.recorder.record("nemesis", "does", name)
            work = self._work(name)
            if name in self.CONDITIONS and self._random.random() < 0.7:
                self._tasks.append(asyncio.ensure_future(work))
            else:
                await work
            await self._restart_if_expelled()

    async def heal(self) -> None:
        """From now on everything works."""
        await self.end()
        self._network.heal()
        self._network.quality.longest = self._usual_delay
        if self._ensemble is not None:
            self._ensemble.slowest = 0.001
        for broker in self._all_brokers():
            broker.node.slowest_work = self._usual_work
            self._heal_disk(broker)
            if broker.node.process is not None:
                broker.node.process.operations_left = -1
                broker.node.process.resume()
        for actor in self._actors:
            if not actor.node.is_running and not actor.done:
                actor.start()
        brokers = self._all_brokers()
        self._tasks += [asyncio.ensure_future(self._keep_running(each)) for each in brokers]
        for broker in brokers:
            await self._start_broker(broker)

    async def end(self) -> None:
        """Do nothing any more, neither harm nor good."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_running(self, broker: SimulatedBroker) -> None:
        """A broker may still be giving up because of what was wrong."""
        while True:
            await self._start_broker(broker)
            await self._restart_if_expelled()
            await asyncio.sleep(1.0)

    # The broker ----------------------------------------------------------------------------------

    def _crashed(self, broker: SimulatedBroker, power: bool) -> None:
        self._history.crashes.append(Crash(self._simulation.time, broker.node.name, power))

    async def _start_broker(self, broker: SimulatedBroker) -> bool:
        """Start the broker until it runs; returns whether it does."""
        for _ in range(20):
            if broker.is_running:
                return True
            try:
                await broker.start()
            except ProcessEnded:
                pass
            except Exception as error:
                broker.node.tell("cannot start", repr(error))
            await asyncio.sleep(0.5)
        return broker.is_running

    async def kill(self) -> None:
        broker = self._victim()
        broker.kill()
        await asyncio.sleep(self._random.random() * 3)
        await self._start_broker(broker)

    async def power_cut(self) -> None:
        broker = self._victim()
        broker.power_cut()
        await asyncio.sleep(self._random.random() * 3)
        await self._start_broker(broker)

    async def _may_cut_power(self) -> bool:
        return True

    async def crash_at_operation(self) -> None:
        """Between any two operations on the disk, also while starting."""
        broker, random = self._victim(), self._random
        node = broker.node
        if not node.is_running:
            await self._start_broker(broker)
        power = await self._may_cut_power() and random.random() < 0.4
        if node.is_running:
            node.crash_after(random.randrange(200), power=power)
        for _ in range(50):
            await asyncio.sleep(0.1)
            if not node.is_running:
                break
        if node.is_running:
            assert node.process is not None
            node.process.operations_left = -1
        await self._start_broker(broker)

    async def restart(self) -> None:
        await self._restart(self._victim())

    async def _restart(self, broker: SimulatedBroker) -> None:
        try:
            await broker.stop()
        except ProcessEnded:
            pass
        except Exception as error:
            name = broker.node.name
            self._history.errors.append((self._simulation.time, name, f"cannot stop: {error!r}"))
        await asyncio.sleep(self._random.random())
        await self._start_broker(broker)

    async def pause(self) -> None:
        self._victim().node.pause(self._random.random() ** 2 * 12)
        await asyncio.sleep(self._random.random() * 2)

    async def kill_children(self) -> None:
        """The broker's cleaners, for instance, as the system does that is short of memory."""
        broker = self._victim()
        if broker.is_running:
            for child in broker.node.children.running:
                child.kill()

    # Its coordination store ----------------------------------------------------------------------

    async def _restart_if_expelled(self) -> None:
        """A broker whose session is over stays out of its cluster until it is started again."""
        if self._ensemble is not None and self._broker.is_running and not self._ensemble.sessions:
            await self._restart(self._broker)

    async def lose_coordination(self) -> None:
        assert self._ensemble is not None
        self._ensemble.lose_connections(self._random.random() ** 2 * 8)
        await asyncio.sleep(self._random.random() * 2)

    async def expire_session(self) -> None:
        assert self._ensemble is not None
        await self._ensemble.expire_sessions()
        await asyncio.sleep(self._random.random() * 3)

    async def slow_coordination(self) -> None:
        assert self._ensemble is not None
        self._ensemble.slowest = self._random.random() * 1.5
        await asyncio.sleep(self._random.random() * 5)
        self._ensemble.slowest = 0.001

    # Its disk ------------------------------------------------------------------------------------

    def _heal_disk(self, broker: SimulatedBroker) -> None:
        broker.node.disk.heal()
        broker.node.disk.capacity = None

    async def slow_disk(self) -> None:
        node = self._victim().node
        node.slowest_work = self._random.random() * 3
        await asyncio.sleep(self._random.random() * 5)
        node.slowest_work = self._usual_work

    async def full_disk(self) -> None:
        broker = self._victim()
        disk = broker.node.disk
        disk.capacity = disk.used + self._random.randrange(20_000)
        await asyncio.sleep(self._random.random() * 4)
        self._heal_disk(broker)
        await self._start_broker(broker)

    async def killed_on_full_disk(self) -> None:
        """The broker has to start although nothing more fits."""
        broker = self._victim()
        disk = broker.node.disk
        if not broker.is_running:
            return
        disk.capacity = disk.used + self._random.randrange(200)
        await asyncio.sleep(self._random.random() * 2)
        broker.kill()
        disk.capacity = disk.used
        if not await self._start_broker(broker):
            self._history.errors.append(
                (self._simulation.time, broker.node.name, "does not start on a full disk")
            )
        await asyncio.sleep(self._random.random() * 2)
        self._heal_disk(broker)
        # What had no room to be opened is offline until the next start.
        await self._restart(broker)

    async def damage_store(self) -> None:
        """Kill the broker and damage its coordination store; do what it then asks for."""
        broker, disk = self._broker, self._broker.node.disk
        if self._ensemble is not None or not broker.is_running:
            return
        broker.kill()
        name = self._damage(disk)
        self._history.damages.append(self._simulation.time)
        broker.node.tell("damaged", name)
        await asyncio.sleep(self._random.random())
        try:
            await broker.start()
        except ProcessEnded:
            pass
        except Exception as error:
            broker.node.tell("cannot start", repr(error))
            if "moldau coordination restore" in str(error):
                loading.restore(DiskStorage(disk, _DATA), broker.node.clock.now_ms())
        await self._start_broker(broker)

    def _damage(self, disk: MemoryDisk) -> str:
        """Returns what was damaged, and how."""
        random = self._random
        snapshot, path = f"{_DATA}/{journal.SNAPSHOT}", f"{_DATA}/{journal.JOURNAL}"
        if disk.exists(snapshot) and random.random() < 0.3:
            disk.flip_bit(snapshot, random.randrange(disk.size(snapshot)), random.randrange(8))
            return "a bit of the snapshot"
        size = len(disk.read(path).rstrip(b"\0"))
        kind = random.choice(["bit", "last bit", "cut", "gone"])
        tail = random.randrange(min(size, 400))
        if kind == "bit":
            disk.flip_bit(path, random.randrange(size), random.randrange(8))
        elif kind == "last bit":
            disk.flip_bit(path, size - 1 - tail, random.randrange(8))
        elif kind == "cut":
            disk.truncate(path, size - tail)
            disk.sync(path)
        else:
            disk.remove(path)
            disk.sync_dir(_DATA)
        return f"{kind} of the journal"

    async def failing_disk(self) -> None:
        random, broker = self._random, self._victim()
        kinds = random.choice([(), ("append",), ("sync",), ("append", "sync"), ("rename",)])
        broker.node.disk.fail(errno.EIO, after=random.randrange(50), operations=frozenset(kinds))
        await asyncio.sleep(random.random() * 4)
        self._heal_disk(broker)
        await self._start_broker(broker)

    # The network ---------------------------------------------------------------------------------

    def _some_client(self) -> Actor:
        return self._random.choice(self._actors)

    async def cut(self) -> None:
        hosts = [self._victim().node.name, self._some_client().name]
        self._random.shuffle(hosts)
        self._network.cut(hosts[0], hosts[1], both_ways=self._random.random() < 0.5)
        await asyncio.sleep(self._random.random() ** 2 * 15)
        self._network.heal()

    async def reset(self) -> None:
        self._network.reset_connections(self._victim().node.name, self._some_client().name)

    async def slow_network(self) -> None:
        quality = self._network.quality
        quality.longest = self._random.random() * 2
        await asyncio.sleep(self._random.random() * 5)
        quality.longest = self._usual_delay

    # Clients -------------------------------------------------------------------------------------

    async def kill_client(self) -> None:
        actor = self._some_client()
        if actor.node.is_running:
            actor.node.kill()
        await asyncio.sleep(self._random.random() * 3)
        if not actor.node.is_running and not actor.done:
            actor.start()

    async def pause_client(self) -> None:
        self._some_client().node.pause(self._random.random() ** 2 * 15)

    async def set_clock(self) -> None:
        self._victim().node.clock.ahead_ms += self._random.randrange(-5_000, 5_000)

    async def jump_clock(self) -> None:
        """For less time than passes between two checks of retention the clock is far ahead."""
        clock, days = self._victim().node.clock, self._random.randrange(8, 1000)
        clock.ahead_ms += days * _DAY_MS
        await asyncio.sleep(self._random.random() * 0.95)
        clock.ahead_ms -= days * _DAY_MS


Nemesis.TROUBLES.update(
    {
        "kill": Nemesis.kill,
        "power cut": Nemesis.power_cut,
        "crash at an operation": Nemesis.crash_at_operation,
        "clean restart": Nemesis.restart,
        "pause": Nemesis.pause,
        "kill its children": Nemesis.kill_children,
        "slow disk": Nemesis.slow_disk,
        "full disk": Nemesis.full_disk,
        "failing disk": Nemesis.failing_disk,
        "cut": Nemesis.cut,
        "reset": Nemesis.reset,
        "slow network": Nemesis.slow_network,
        "kill a client": Nemesis.kill_client,
        "pause a client": Nemesis.pause_client,
        "clock": Nemesis.set_clock,
    }
)
Nemesis.DAMAGES.update(
    {
        "damaged store": Nemesis.damage_store,
        "killed on a full disk": Nemesis.killed_on_full_disk,
        "clock jump": Nemesis.jump_clock,
    }
)
Nemesis.COORDINATION_TROUBLES.update(
    {
        "coordination connection lost": Nemesis.lose_coordination,
        "session expired": Nemesis.expire_session,
        "coordination slow": Nemesis.slow_coordination,
    }
)

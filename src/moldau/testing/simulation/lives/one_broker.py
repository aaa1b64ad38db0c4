"""The life of one broker and its clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from moldau.broker.ports import open_embedded
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.coordination import SimulatedEnsemble
from moldau.testing.simulation.lives.life import Life
from moldau.testing.simulation.lives.plan import Plan, draw
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.nemesis import Nemesis


class OneBrokerLife(Life):
    """``adjust`` makes of the plan that the seed draws the one that is lived."""

    def __init__(
        self,
        seed: int,
        *,
        keep_events: bool = False,
        adjust: Callable[[Plan], Plan] = lambda plan: plan,
    ) -> None:
        super().__init__(seed, lambda random: adjust(_draw(random)), keep_events=keep_events)
        self.ensemble = (
            SimulatedEnsemble(self.simulation) if self.plan.remote_coordination else None
        )
        self.broker = SimulatedBroker(
            self.simulation,
            settings={"offsets.topic.replication.factor": 1, **self.plan.broker_settings},
            open_coordination=open_embedded if self.ensemble is None else self.ensemble.open,
        )
        self.broker.node.slowest_work = self.plan.disk_delay

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    async def _start(self) -> None:
        if self.ensemble is not None:
            await self.ensemble.start()
        await self.broker.start()

    def _nemesis(self, actors: Sequence[Actor]) -> Nemesis:
        return Nemesis(self.simulation, self.history, self.broker, actors, self.ensemble)


def _draw(random: Random) -> Plan:
    return draw(
        random,
        list(Nemesis.TROUBLES),
        list(Nemesis.COORDINATION_TROUBLES),
        list(Nemesis.DAMAGES),
    )

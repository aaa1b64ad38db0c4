"""A whole life: clients at work, trouble, then peace, then the reckoning.

What differs between the life of one broker and that of a cluster is left to those.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.checker.check import check
from moldau.testing.simulation.checker.history import (
    Fate,
    FinalLog,
    History,
    TopicAction,
    TopicChange,
)
from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.errors import SimulationError
from moldau.testing.simulation.lives.error_log import ProgramLog
from moldau.testing.simulation.lives.outcome import Outcome
from moldau.testing.simulation.lives.plan import Plan, Role
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.administrating import AdministratingActor
from moldau.testing.simulation.load.consuming import MemberActor, ReadingActor
from moldau.testing.simulation.load.listening import ListeningActor
from moldau.testing.simulation.load.producing import ProducingActor
from moldau.testing.simulation.load.values import decode
from moldau.testing.simulation.nemesis import Nemesis
from moldau.testing.simulation.simulation import Simulation

STUCK: Final = "no progress although nothing is wrong any more"

TOPIC: Final = "orders"
CLASSIC_SETTINGS: Final[dict[str, Any]] = {
    "session_timeout_ms": 4_000,
    "heartbeat_interval_ms": 1_000,
}
PATIENCE: Final = 120.0
"""Virtual seconds within which everything must have come right after the last trouble."""
RETENTION_PATIENCE: Final = 5.0
"""Virtual seconds within which a broker has deleted what is too old."""
LONGEST: Final = 3_600.0


class Life(ABC):
    """One world, from its beginning to the verdict."""

    def __init__(
        self, seed: int, draw: Callable[[Random], Plan], *, keep_events: bool = False
    ) -> None:
        self.seed = seed
        self.simulation = Simulation(seed, keep_events=keep_events)
        self.simulation.loop.time_limit = LONGEST
        self.plan = draw(self.simulation.new_random("plan"))
        self.simulation.network.quality.longest = self.plan.delay
        self.history = History(self.simulation.loop.time, synced_always=self.plan.synced)
        self.history.retention = self.plan.retention
        if self.plan.compacted:
            self.history.compacted.add(TOPIC)
        self.partitions = [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]
        self._broken: list[Violation] = []

    # What lives differ in ------------------------------------------------------------------------

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Where clients begin."""

    @abstractmethod
    async def _start(self) -> None:
        """Start whatever serves; returns when clients may come."""

    @abstractmethod
    def _nemesis(self, actors: Sequence[Actor]) -> Nemesis:
        """Returns who makes trouble."""

    def _others(self) -> list[Actor]:
        """Returns further programs, which stop with the producers."""
        return []

    async def _settle(self) -> None:
        """Wait until whatever serves has come right: nothing is wrong any more."""
        return

    async def _calm(self) -> None:
        """Wait until whatever serves has come to rest: nothing is changed any more."""
        return

    async def _look_inside(self) -> None:
        """Look at what no client sees, when nobody writes any more."""
        return

    # The story -----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        with self.simulation, ProgramLog(self.history, self.simulation.recorder):
            try:
                self.simulation.run(self._story())
            except (SimulationError, KafkaError) as error:
                self._stuck(repr(error))
            violations = self._broken + check(self.history)
        return Outcome(
            self.seed,
            violations,
            self.simulation.recorder.digest,
            self.simulation.time,
            sum(send.offset >= 0 for send in self.history.sends.values()),
            len(self.history.crashes),
        )

    async def _story(self) -> None:
        await self._start()
        await self._on_probe(self._create_topic)
        producers, readers = self._producers(), self._readers()
        administrator = self._administrator()
        others = self._others()
        actors: list[Actor] = [*producers, *readers, administrator, *others]
        for actor in actors:
            actor.start()
        nemesis = self._nemesis(actors)
        await nemesis.trouble(self.plan.seconds, self.plan.troubles)
        await nemesis.heal()
        await self._settle()
        await self._ended([*producers, *others])
        # TCP delivers what a program sent before it ended, and a cut may have held that up.
        network = self.simulation.network
        await self._until(
            lambda: [each.name for each in (*producers, *others) if network.is_heard(each.name)],
            "requests of programs that have ended are still under way",
        )
        administrator.only_looks = True
        await self._until(lambda: administrator.is_changing, "an administrator's work")
        await self._calm()
        if self.plan.retention:
            await asyncio.sleep(RETENTION_PATIENCE)
        await self._on_probe(self._read_all)
        await self._look_inside()
        await self._caught_up(
            dict.fromkeys(actor.group for actor in readers if not isinstance(actor, ReadingActor))
        )
        await self._ended([*readers, administrator])
        await nemesis.end()

    # Who takes part ------------------------------------------------------------------------------

    def _producers(self) -> list[ProducingActor]:
        return [
            ProducingActor(
                self.simulation,
                f"producer-{number}",
                self.history,
                self.bootstrap_servers,
                partitions=self.partitions,
                rate=self.plan.rate,
                **settings,
            )
            for number, settings in enumerate(self.plan.producers)
        ]

    def _readers(self) -> list[MemberActor | ListeningActor | ReadingActor]:
        return [actor for role in self.plan.roles for actor in self._actors_of(role)]

    def _actors_of(self, role: Role) -> Sequence[MemberActor | ListeningActor | ReadingActor]:
        common = (self.history, self.bootstrap_servers)
        if role is Role.READER:
            return [ReadingActor(self.simulation, "reader", *common, partitions=self.partitions)]
        if role is Role.LISTENER:
            return [
                ListeningActor(
                    self.simulation,
                    "listener",
                    *common,
                    group=role.value,
                    topic=TOPIC,
                    ack_mode=self.plan.ack_mode,
                    max_poll_records=self.plan.max_poll_records,
                    **CLASSIC_SETTINGS,
                )
            ]
        settings: dict[str, object] = {"group_protocol": "consumer"}
        if role is not Role.MODERN:
            settings = {
                "group_protocol": "classic",
                "partition_assignment_strategy": self.plan.strategy,
                **CLASSIC_SETTINGS,
            }
        return [
            MemberActor(
                self.simulation,
                f"{role.value}-{number}",
                *common,
                group=role.value,
                topics=[TOPIC],
                commits=role is Role.CLASSIC,
                max_poll_records=self.plan.max_poll_records,
                **settings,
            )
            for number in range(2)
        ]

    def _administrator(self) -> AdministratingActor:
        return AdministratingActor(
            self.simulation,
            "admin",
            self.history,
            self.bootstrap_servers,
            topics=["extra-1", "extra-2"] if self.plan.administrates else [],
            groups=[role.value for role in self.plan.roles if role is not Role.READER],
            main=self.partitions,
            tuned=self.plan.tuned,
            deletes=self.plan.deletes,
            elects=self.plan.elects,
        )

    # What a client that nobody troubles does -----------------------------------------------------

    async def _on_probe(self, work: Callable[[Machine], Awaitable[None]]) -> None:
        node = self.simulation.node("probe")
        machine = node.boot()

        async def run() -> None:
            await work(machine)

        await node.run(run())
        node.exit()

    async def _create_topic(self, machine: Machine) -> None:
        admin = AsyncAdmin(machine=machine, bootstrap_servers=self.bootstrap_servers)
        async with admin:
            topic = NewTopic(TOPIC, self.plan.partitions, configs=self.plan.topic_settings)
            creation = TopicChange(
                TopicAction.CREATE, TOPIC, self.plan.partitions, self.simulation.time
            )
            self.history.topic_changes.append(creation)
            (outcome,) = await admin.create_topics([topic])
            outcome.get()
            creation.fate, creation.settled_at = Fate.DONE, self.simulation.time

    async def _read_all(self, machine: Machine) -> None:
        """Read every partition from its start to its end."""
        async with AsyncConsumer(
            machine=machine,
            bootstrap_servers=self.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            starts = await consumer.beginning_offsets(self.partitions)
            ends = await consumer.end_offsets(self.partitions)
            logs = self.history.final_logs = {
                partition: FinalLog(
                    partition, starts[partition], ends[partition], [], self.simulation.time
                )
                for partition in self.partitions
            }
            consumer.assign(self.partitions)
            unread = [p for p in self.partitions if starts[p] < ends[p]]
            deadline = self.simulation.time + PATIENCE
            while unread and self.simulation.time < deadline:
                for record in (await consumer.poll(timeout=1.0)).records():
                    partition = TopicPartition(record.topic, record.partition)
                    logs[partition].records.append((record.offset, decode(record.value, partition)))
                unread = [p for p in unread if await consumer.position(p) < ends[p]]
            for partition in unread:
                self._stuck(
                    f"{partition} cannot be read beyond {await consumer.position(partition)}, "
                    f"although it ends at {ends[partition]}"
                )

    # Waiting -------------------------------------------------------------------------------------

    async def _ended(self, actors: Sequence[Actor]) -> None:
        for actor in actors:
            actor.stopping = True
        await self._until(
            lambda: [actor.name for actor in actors if not actor.done], "programs do not end"
        )

    async def _caught_up(self, groups: dict[str, None]) -> None:
        """Every group is given everything that is there."""
        missing = {
            group: {
                (log.partition, offset)
                for log in self.history.final_logs.values()
                if log.partition.topic == TOPIC
                for offset in self.history.lasting_offsets(log)
            }
            for group in groups
        }
        looked_at = 0

        def lacking() -> dict[str, int]:
            nonlocal looked_at
            for sight in self.history.sights[looked_at:]:
                if sight.group in missing:
                    missing[sight.group].discard((sight.partition, sight.offset))
            looked_at = len(self.history.sights)
            return {group: len(records) for group, records in missing.items() if records}

        await self._until(lacking, "records are not given to groups")

    async def _until(self, remaining: Callable[[], object], what: str) -> None:
        """Wait until nothing remains."""
        deadline = self.simulation.time + PATIENCE
        while left := remaining():
            if self.simulation.time > deadline:
                self._stuck(f"{what}: {left}")
                return
            await asyncio.sleep(0.5)

    def _stuck(self, sentence: str) -> None:
        self._broken.append(Violation(STUCK, sentence, at=self.simulation.time))

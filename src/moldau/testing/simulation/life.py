"""The life of one broker and its clients, as a seed has it, and whether all promises were kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.listener import AckMode
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.checker.check import check
from moldau.testing.simulation.checker.history import FinalLog, History
from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.errors import SimulationError
from moldau.testing.simulation.load.actor import Actor
from moldau.testing.simulation.load.administrating import AdministratingActor
from moldau.testing.simulation.load.consuming import MemberActor, ReadingActor
from moldau.testing.simulation.load.listening import ListeningActor
from moldau.testing.simulation.load.producing import ProducingActor
from moldau.testing.simulation.load.values import decode
from moldau.testing.simulation.nemesis import Nemesis
from moldau.testing.simulation.process import PROCESS
from moldau.testing.simulation.simulation import Simulation

STUCK = "no progress although nothing is wrong any more"

TOPIC = "orders"
PATIENCE = 180.0
"""Virtual seconds within which everything must have come right after the last trouble."""


class Outcome(NamedTuple):
    """What became of one life."""

    seed: int
    violations: list[Violation]
    digest: str
    seconds: float
    """Of virtual time."""
    acknowledged: int
    """Records."""
    crashes: int


@dataclass(slots=True)
class Plan:
    """What a life is like; every field is drawn from the seed unless it is given."""

    random: Random
    seconds: float = field(init=False)
    partitions: int = field(init=False)
    synced: bool = field(init=False)
    """Whether the broker syncs before it acknowledges."""
    segment_bytes: int = field(init=False)
    index_interval: int = field(init=False)
    producers: list[dict[str, Any]] = field(init=False)
    groups: dict[str, dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        random = self.random
        self.seconds = 10 + random.random() * 30
        self.partitions = random.randrange(1, 4)
        self.synced = random.random() < 0.5
        self.segment_bytes = random.choice([2_000, 10_000, 1_000_000])
        self.index_interval = random.choice([1, 200, 4096])
        self.producers = [self._producer() for _ in range(random.randrange(1, 4))]
        self.groups = {
            "classic": {
                "group_protocol": "classic",
                "partition_assignment_strategy": random.choice(
                    ["range", "roundrobin", "cooperative-sticky"]
                ),
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 1_500,
            },
            "modern": {"group_protocol": "consumer"},
        }

    def _producer(self) -> dict[str, Any]:
        random = self.random
        idempotent = random.random() < 0.7
        return {
            "enable_idempotence": idempotent,
            "acks": -1 if idempotent else random.choice([1, -1]),
            "max_in_flight_requests_per_connection": random.choice([1, 5]),
            "linger_ms": random.choice([0, 5, 50]),
            "batch_size": random.choice([500, 16_384]),
            "compression_type": random.choice(["none", "none", "lz4", "gzip"]),
        }

    @property
    def broker_settings(self) -> Mapping[str, object]:
        return {
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 3,
            "group.initial.rebalance.delay.ms": 100,
            "group.consumer.session.timeout.ms": 6_000,
            "group.consumer.min.session.timeout.ms": 6_000,
            "group.consumer.heartbeat.interval.ms": 1_500,
            "group.consumer.min.heartbeat.interval.ms": 1_000,
            "log.flush.interval.messages": 1 if self.synced else 2**63 - 1,
            "log.flush.offset.checkpoint.interval.ms": self.random.choice([500, 5_000, 60_000]),
        }

    @property
    def topic_settings(self) -> dict[str, str]:
        return {
            "internal.segment.bytes": str(self.segment_bytes),
            "index.interval.bytes": str(self.index_interval),
        }


class Life:
    """One world, from its beginning to the verdict."""

    def __init__(self, seed: int, *, keep_events: bool = False) -> None:
        self.seed = seed
        self.simulation = Simulation(seed, keep_events=keep_events)
        self.plan = Plan(self.simulation.new_random("plan"))
        self.history = History(self.simulation.loop.time, synced_always=self.plan.synced)
        self.broker = SimulatedBroker(self.simulation, settings=self.plan.broker_settings)
        self.partitions = [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]
        self._extra: list[Violation] = []

    def run(self) -> Outcome:
        with self.simulation, _ErrorLog(self):
            try:
                self.simulation.run(self._scenario())
            except SimulationError as error:
                self._extra.append(Violation(STUCK, str(error), at=self.simulation.time))
            violations = self._extra + check(self.history)
        return Outcome(
            self.seed,
            violations,
            self.simulation.recorder.digest,
            self.simulation.time,
            sum(send.offset >= 0 for send in self.history.sends.values()),
            len(self.history.crashes),
        )

    # The story -----------------------------------------------------------------------------------

    async def _scenario(self) -> None:
        await self.broker.start()
        await self._on_probe(self._create_topic)
        producers, others = self._actors()
        actors = [*producers, *others]
        for actor in actors:
            actor.start()
        nemesis = Nemesis(self.simulation, self.history, self.broker, actors)
        await nemesis.trouble(self.plan.seconds)
        await nemesis.heal()
        await self._ended(producers)
        await self._on_probe(self._read_all)
        await self._caught_up([actor for actor in others if hasattr(actor, "group")])
        await self._ended(others)

    def _actors(self) -> tuple[list[Actor], list[Actor]]:
        plan = self.plan
        common = (self.history, self.broker.bootstrap_servers)
        producers: list[Actor] = [
            ProducingActor(
                self.simulation,
                f"producer-{number}",
                *common,
                partitions=self.partitions,
                rate=4,
                **settings,
            )
            for number, settings in enumerate(plan.producers)
        ]
        others: list[Actor] = [
            MemberActor(
                self.simulation,
                f"{group}-{number}",
                *common,
                group=group,
                topics=[TOPIC],
                commits=group == "classic",
                **settings,
            )
            for group, settings in plan.groups.items()
            for number in range(2)
        ]
        others.append(
            ListeningActor(
                self.simulation,
                "listener",
                *common,
                group="listeners",
                topic=TOPIC,
                ack_mode=plan.random.choice([AckMode.RECORD, AckMode.BATCH]),
            )
        )
        others.append(ReadingActor(self.simulation, "reader", *common, partitions=self.partitions))
        others.append(
            AdministratingActor(
                self.simulation,
                "admin",
                *common,
                topics=["extra-1", "extra-2"],
                groups=[*plan.groups, "listeners"],
            )
        )
        return producers, others

    async def _on_probe(self, work: Any) -> None:
        """Run something on a client that nobody troubles."""
        node = self.simulation.node("probe")
        await node.run(work(node.boot()))
        node.exit()

    async def _create_topic(self, machine: Machine) -> None:
        admin = AsyncAdmin(machine=machine, bootstrap_servers=self.broker.bootstrap_servers)
        async with admin:
            topic = NewTopic(TOPIC, self.plan.partitions, configs=self.plan.topic_settings)
            (outcome,) = await admin.create_topics([topic])
            outcome.get()

    async def _read_all(self, machine: Machine) -> None:
        """Read every partition from its start to its end."""
        async with AsyncConsumer(
            machine=machine,
            bootstrap_servers=self.broker.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            starts = await consumer.beginning_offsets(self.partitions)
            ends = await consumer.end_offsets(self.partitions)
            logs = {
                partition: FinalLog(partition, starts[partition], ends[partition], [])
                for partition in self.partitions
            }
            consumer.assign(self.partitions)
            unfinished = {p: None for p in self.partitions if starts[p] < ends[p]}
            deadline = self.simulation.time + PATIENCE
            while unfinished and self.simulation.time < deadline:
                for record in (await consumer.poll(timeout=1.0)).records():
                    partition = TopicPartition(record.topic, record.partition)
                    logs[partition].records.append((record.offset, decode(record.value, partition)))
                for partition in tuple(unfinished):
                    if await consumer.position(partition) >= ends[partition]:
                        del unfinished[partition]
            for partition in unfinished:
                self._extra.append(
                    Violation(
                        STUCK,
                        f"{partition} cannot be read beyond {await consumer.position(partition)}, "
                        f"although it ends at {ends[partition]}",
                        partition,
                        self.simulation.time,
                    )
                )
            self.history.final_logs = logs

    async def _ended(self, actors: list[Actor]) -> None:
        for actor in actors:
            actor.stopping = True
        await self._until(
            lambda: all(actor.done for actor in actors),
            lambda: "not ended: " + ", ".join(actor.name for actor in actors if not actor.done),
        )

    async def _caught_up(self, members: list[Any]) -> None:
        """Every group gets everything that is there."""
        groups = list(dict.fromkeys(member.group for member in members))

        def missing() -> dict[str, int]:
            given: dict[str, set[tuple[TopicPartition, int]]] = {group: set() for group in groups}
            for sight in self.history.sights:
                if sight.group in given:
                    given[sight.group].add((sight.partition, sight.offset))
            return {
                group: sum(
                    (log.partition, offset) not in given[group]
                    for log in self.history.final_logs.values()
                    for offset, _ in log.records
                )
                for group in groups
            }

        await self._until(
            lambda: not any(missing().values()), lambda: f"records not given: {missing()}"
        )

    async def _until(self, condition: Any, otherwise: Any) -> None:
        deadline = self.simulation.time + PATIENCE
        while not condition():
            if self.simulation.time > deadline:
                self._extra.append(Violation(STUCK, otherwise(), at=self.simulation.time))
                return
            await asyncio.sleep(1.0)


class _ErrorLog(logging.Handler):
    """Notes what programs log as errors that they did not expect."""

    def __init__(self, life: Life) -> None:
        super().__init__(logging.ERROR)
        self._life = life

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError):
            process = PROCESS.get()
            self._life.history.errors.append(
                (
                    self._life.simulation.time,
                    "world" if process is None else process.name,
                    f"{record.name}: {record.getMessage()}: {error!r}",
                )
            )

    def __enter__(self) -> None:
        logging.getLogger("moldau").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("moldau").removeHandler(self)


__all__ = ["KafkaError", "Life", "Outcome"]

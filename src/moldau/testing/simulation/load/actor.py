"""A program that runs on a client node, is killed, and runs again."""

from __future__ import annotations

import asyncio
import traceback
from abc import ABC, abstractmethod
from random import Random
from typing import Any

from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.testing.simulation.checker.history import ATTEMPT, History, Sight
from moldau.testing.simulation.load.values import decode
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.simulation import Simulation


class Actor(ABC):
    """One program. Its node may be killed at any time; ``start`` begins the next life."""

    def __init__(self, simulation: Simulation, name: str, history: History, bootstrap: str) -> None:
        self.name = name
        self.node: Node = simulation.node(name)
        self.history = history
        self.random: Random = simulation.new_random(f"actor {name}")
        self.common: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "client_id": name,
            "request_timeout_ms": int(ATTEMPT * 1000),
            "reconnect_backoff_max_ms": 1_000,
        }
        self.lives = 0
        self.stopping = False
        """Whether the world wants the program to come to its end."""
        self.done = False
        """Whether it has."""

    def start(self) -> None:
        self.lives += 1
        machine = self.node.boot()
        self.node.spawn(self._live(machine))

    async def _live(self, machine: Machine) -> None:
        while not self.done:
            try:
                await self.run(machine)
                self.done = self.stopping
            except KafkaError as error:
                # As a program would: it has tried for long enough, so it starts over.
                self.node.tell("failed", f"{type(error).__name__}: {error}")
                await asyncio.sleep(1.0)
            except Exception as error:
                frames = "".join(traceback.format_exception(error)[-3:])
                self.history.errors.append((self.history.now(), self.name, frames))
                self.done = True
        self.node.exit()

    @property
    def heard_at(self) -> float:
        """Since when what the program learns just now may have been there."""
        assert self.node.process is not None
        return self.node.process.heard_at

    def saw(self, record: ConsumerRecord, reader: str, group: str = "") -> None:
        """Note a record that the program was given, or is done with."""
        partition = TopicPartition(record.topic, record.partition)
        identity = decode(record.value, partition)
        self.history.sights.append(
            Sight(self.history.now(), reader, group, partition, record.offset, identity)
        )

    @abstractmethod
    async def run(self, machine: Machine) -> None:
        """Do the work until ``stopping``; KafkaError when it cannot be done."""

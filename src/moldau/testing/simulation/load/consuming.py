"""Readers: members of groups of both protocols, and one that needs no group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from moldau.client.consumer import AsyncConsumer, RebalanceListener
from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import Commit, Fate, Ownership
from moldau.testing.simulation.load.actor import Actor

READER_SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 200,
    "default_api_timeout_ms": 10_000,
    "auto_commit_interval_ms": 1_000,
    # So long a member waits for the answer to its join, be it from a broker that has lost power.
    "max_poll_interval_ms": 30_000,
}


class MemberActor(Actor):
    """A member of a group. Commits what it was given: by itself, or by the consumer's timer."""

    def __init__(
        self, *args: Any, group: str, topics: Sequence[str], commits: bool, **settings: Any
    ) -> None:
        super().__init__(*args)
        self.group = group
        self._topics = topics
        self._commits = commits
        if commits:
            self.history.noting_groups.add(group)
        self._settings = settings

    async def run(self, machine: Machine) -> None:
        settings = {**self.common, **READER_SETTINGS, **self._settings}
        async with AsyncConsumer(
            machine=machine,
            group_id=self.group,
            enable_auto_commit=not self._commits,
            **settings,
        ) as consumer:
            member = _Member(self, consumer, f"{self.name}.{self.lives}")
            consumer.subscribe(self._topics, listener=member)
            try:
                while not self.stopping:
                    await self._poll(consumer, member)
            finally:
                member.lose(member.owned.copy())

    async def _poll(self, consumer: AsyncConsumer, member: _Member) -> None:
        records = await consumer.poll(timeout=0.5)
        member.note_generation()
        for record in records.records():
            member.next_offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
            self.saw(record, member.name, self.group)
        if records and self.random.random() < 0.2:
            await asyncio.sleep(self.random.random() * 0.2)
        if records and self._commits and self.random.random() < 0.5:
            await self._commit(consumer, member)

    async def _commit(self, consumer: AsyncConsumer, member: _Member) -> None:
        now = self.history.now()
        commits = [
            Commit(self.group, member.name, partition, offset, now)
            for partition, offset in member.next_offsets.items()
        ]
        self.history.commits += commits
        try:
            await consumer.commit({commit.partition: commit.offset for commit in commits})
        except KafkaError:
            # Not even a group that has gone on says that nothing has happened: the client tries
            # again by itself, and what was too late the second time may have been done the first.
            fate = Fate.UNKNOWN
        else:
            fate = Fate.DONE
        for commit in commits:
            commit.fate, commit.settled_at = fate, self.history.now()
            commit.heard_at = self.heard_at


class _Member(RebalanceListener):
    """Notes what a member owns, and when."""

    def __init__(self, actor: MemberActor, consumer: AsyncConsumer, name: str) -> None:
        self.name = name
        self.owned: dict[TopicPartition, Ownership] = {}
        self.next_offsets: dict[TopicPartition, int] = {}
        """Behind the last record that was given, of the partitions that are owned."""
        self._actor = actor
        self._consumer = consumer
        self._looked_at = actor.history.now()
        """When the member last asked for its generation: what is new came since."""

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        for partition in partitions:
            self._note(partition, generation)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.lose(partitions)

    def note_generation(self) -> None:
        """What stays with a member over a rebalance belongs to it in the new generation too."""
        generation = self._consumer.group_metadata().generation_id
        for partition, ownership in tuple(self.owned.items()):
            if ownership.generation != generation:
                self._note(partition, generation)
        self._looked_at = self._actor.history.now()

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        now = self._actor.history.now()
        for partition in partitions:
            ownership = self.owned.pop(partition, None)
            self.next_offsets.pop(partition, None)
            if ownership is not None:
                ownership.until = now

    def _note(self, partition: TopicPartition, generation: int) -> None:
        history = self._actor.history
        now = history.now()
        before = self.owned.get(partition)
        if before is not None:
            before.until = now
        heard_at = min(self._actor.heard_at, self._looked_at)
        ownership = Ownership(self._actor.group, self.name, generation, partition, now, heard_at)
        self.owned[partition] = ownership
        history.ownerships.append(ownership)


class ReadingActor(Actor):
    """Reads given partitions from their beginning, without a group."""

    def __init__(self, *args: Any, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*args)
        self._partitions = partitions

    async def run(self, machine: Machine) -> None:
        async with AsyncConsumer(machine=machine, **self.common, **READER_SETTINGS) as consumer:
            consumer.assign(self._partitions)
            while not self.stopping:
                for record in (await consumer.poll(timeout=0.5)).records():
                    self.saw(record, f"{self.name}.{self.lives}")

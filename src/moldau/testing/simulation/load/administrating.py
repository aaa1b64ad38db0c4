"""An administrator: changes topics, and looks at them and at the offsets of groups.

Some topics come and go. Another one, the main one, is in use: it grows, is tuned, and loses old
records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.client.admin import (
    AsyncAdmin,
    ConfigChange,
    ConfigResource,
    ElectionType,
    NewTopic,
    ResourceType,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import (
    CommittedOffset,
    Deletion,
    Fate,
    TopicAction,
    TopicChange,
    TopicSight,
)
from moldau.testing.simulation.load.actor import Actor

SETTING = "retention.bytes"
TUNED: Final = {
    "internal.segment.bytes": ("1000", "3000", "100000"),
    "index.interval.bytes": ("1", "500", "4096"),
    "segment.index.bytes": ("1000", "10485760"),
    "flush.messages": ("1", "2", "10"),
    "min.cleanable.dirty.ratio": ("0.01", "0.9"),
    "compression.type": ("producer", "uncompressed", "lz4"),
}
"""What may be done to a topic in use without any promise becoming smaller, and with what values."""


class AdministratingActor(Actor):
    def __init__(
        self,
        *args: Any,
        topics: Sequence[str],
        groups: Sequence[str],
        main: Sequence[TopicPartition] = (),
        tuned: Sequence[str] = (),
        deletes: bool = False,
        elects: bool = False,
    ) -> None:
        super().__init__(*args)
        self._topics = topics
        self._groups = groups
        self._main = main
        self._tuned = tuned
        self._deletes = deletes
        self._elects = elects
        self._sizes: dict[str, int] = {tp.topic: len(main) for tp in main}
        self.only_looks = False
        """Set this, and nothing more is changed."""
        self.is_changing = False

    async def run(self, machine: Machine) -> None:
        async with AsyncAdmin(machine=machine, **self.common) as admin:
            while not self.stopping:
                await asyncio.sleep(self.random.random() * 1.5)
                self.is_changing = not self.only_looks
                if self.is_changing:
                    await self._change_something(admin)
                    self.is_changing = False
                if self._topics:
                    await self._look_at_topic(admin, self.random.choice(self._topics))
                if self._tuned:
                    await self._look_at_topic(admin, self._main[0].topic)
                for group in self._groups:
                    await self._look_at_group(admin, group)

    async def _change_something(self, admin: AsyncAdmin) -> None:
        if self._topics and self.random.random() < 0.6:
            await self._change_topic(admin)
        if self._tuned:
            await self._change_main(admin)
        if self._deletes:
            await self._delete_records(admin)
        if self._elects and self.random.random() < 0.3:
            with suppress(KafkaError):
                await admin.elect_leaders(ElectionType.PREFERRED)

    async def _change_main(self, admin: AsyncAdmin) -> None:
        """Now and then the topic grows, or one of its settings changes."""
        topic = self._main[0].topic
        chance = self.random.random()
        if chance < 0.1:
            await self._change(admin, TopicAction.GROW, topic, self._sizes[topic] + 1)
        elif chance < 0.5:
            name = self.random.choice(self._tuned)
            change = ConfigChange(name, self.random.choice(TUNED[name]))
            with suppress(KafkaError):
                await admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic): [change]})

    async def _delete_records(self, admin: AsyncAdmin) -> None:
        """Now and then somebody needs nothing any more of what came before some record."""
        if self.random.random() < 0.8 or not self.history.sights:
            return
        sight = self.random.choice(self.history.sights)
        deletion = Deletion(sight.partition, sight.offset, self.history.now())
        self.history.deletions.append(deletion)
        with suppress(KafkaError):
            await admin.delete_records({deletion.partition: deletion.offset})

    async def _change_topic(self, admin: AsyncAdmin) -> None:
        topic = self.random.choice(self._topics)
        size = self._sizes.get(topic)
        if size is None:
            action, value = TopicAction.CREATE, self.random.randrange(1, 4)
        else:
            action = self.random.choice(
                [TopicAction.DELETE, TopicAction.GROW, TopicAction.ALTER, TopicAction.ALTER]
            )
            value = size + 1 if action is TopicAction.GROW else self.random.randrange(1, 1000)
        await self._change(admin, action, topic, value)

    async def _change(self, admin: AsyncAdmin, action: TopicAction, topic: str, value: int) -> None:
        change = TopicChange(action, topic, value, self.history.now())
        self.history.topic_changes.append(change)
        # No error says that nothing has happened: the client tries again by itself, and what the
        # second attempt finds done already may be the work of the first.
        with suppress(KafkaError):
            await self._carry_out(admin, change)
            change.fate = Fate.DONE
        change.settled_at = self.history.now()
        if action is TopicAction.DELETE:
            self._sizes.pop(topic, None)
        elif action in (TopicAction.CREATE, TopicAction.GROW):
            self._sizes[topic] = value

    async def _carry_out(self, admin: AsyncAdmin, change: TopicChange) -> None:
        if change.action is TopicAction.CREATE:
            outcomes: Sequence[Any] = await admin.create_topics(
                [NewTopic(change.topic, change.value)]
            )
        elif change.action is TopicAction.DELETE:
            outcomes = await admin.delete_topics([change.topic])
        elif change.action is TopicAction.GROW:
            outcomes = await admin.create_partitions({change.topic: change.value})
        else:
            resource = ConfigResource(ResourceType.TOPIC, change.topic)
            outcomes = await admin.alter_configs(
                {resource: [ConfigChange(SETTING, str(change.value))]}
            )
        outcomes[0].get()

    async def _look_at_topic(self, admin: AsyncAdmin, topic: str) -> None:
        asked_at = self.history.now()
        try:
            outcome = (await admin.describe_topics([topic]))[0]
            asks = outcome.error is None and topic in self._topics
            setting = await self._look_at_setting(admin, topic) if asks else None
        except KafkaError:
            return
        told_at = self.history.now()
        if outcome.error is None:
            sight = TopicSight(
                topic, True, len(outcome.get().partitions), setting, asked_at, told_at
            )
        elif outcome.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            sight = TopicSight(topic, False, 0, None, asked_at, told_at)
        else:
            return
        self.history.topic_sights.append(sight)

    async def _look_at_setting(self, admin: AsyncAdmin, topic: str) -> int | None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (outcome,) = await admin.describe_configs([resource])
        if outcome.error is not None:
            return None  # gone meanwhile, perhaps
        (value,) = (entry.value for entry in outcome.get() if entry.name == SETTING)
        return None if value is None else int(value)

    async def _look_at_group(self, admin: AsyncAdmin, group: str) -> None:
        asked_at = self.history.now()
        try:
            offsets = await admin.list_group_offsets(group)
        except KafkaError:
            return
        told_at = self.history.now()
        committed = {partition: place.offset for partition, place in offsets.items()}
        # What is not in the answer was never committed, it says.
        for commit in self.history.commits:
            if commit.group == group:
                committed.setdefault(commit.partition, -1)
        for partition, offset in committed.items():
            self.history.committed.append(
                CommittedOffset(group, partition, offset, asked_at, told_at)
            )

"""Members of a ZooKeeper group on the embedded store, which keeps the same contract."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest
from tests.support.memory_storage import open_store

from moldau.client.zookeeper_consumer.assignment import assign
from moldau.client.zookeeper_consumer.membership import (
    Callbacks,
    Membership,
    RebalanceFailedError,
    Retries,
)
from moldau.client.zookeeper_consumer.nodes import GroupPaths
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.store import CoordinationStore, EventType, Watch, WatchEvent
from moldau.model import TopicPartition

GROUP = "g"
TOPIC = "t"
PATIENCE_S = 60.0


class Field:
    """Topics that grow, and who reads what: two at the same partition are a failure."""

    def __init__(self, partitions: int) -> None:
        self.count = partitions
        self.readers: dict[TopicPartition, str] = {}
        self._watches: list[Watch] = []

    async def partitions(
        self, _store: CoordinationStore, topic: str, watch: Watch
    ) -> Collection[int]:
        self._watches.append(watch)
        return range(self.count) if topic == TOPIC else ()

    def grow(self, partitions: int) -> None:
        self.count = partitions
        watches, self._watches = self._watches, []
        for watch in watches:
            watch(WatchEvent(EventType.CHANGED, TOPIC))


class Consumer:
    """A member that notes down what it reads."""

    def __init__(
        self, field: Field, store: EmbeddedStore, name: str, backoff_s: float = 1.0
    ) -> None:
        self.name = name
        self.field = field
        self.session: EmbeddedSession = store.session()
        self.membership = Membership(
            self.session,
            GROUP,
            name,
            {TOPIC: 1},
            field,
            Callbacks(self._assigned, self._revoked),
            Retries(backoff_s, 3),
        )

    @property
    def reads(self) -> set[int]:
        return {one.partition for one, by in self.field.readers.items() if by == self.name}

    async def _assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            other = self.field.readers.get(partition)
            assert other is None, f"{partition} is read by {other} and {self.name}"
            self.field.readers[partition] = self.name

    async def _revoked(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)  # storing offsets takes a moment
        for partition in partitions:
            if self.field.readers.get(partition) == self.name:
                del self.field.readers[partition]

    async def join(self) -> None:
        await self.membership.join(0)

    async def leave(self) -> None:
        await self.membership.leave()
        await self.session.close()

    async def expire(self, store: EmbeddedStore) -> None:
        """The session goes. A real consumer has stopped to read by then: its lease has run out."""
        await self.membership.stop()
        await self._revoked(list(self.field.readers))
        await store.expire(self.session)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.close()


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nothing tells of every condition
            await asyncio.sleep(0.001)


def is_divided(field: Field, consumers: Collection[Consumer]) -> bool:
    """Whether everybody reads what the rule gives it."""
    subscriptions = {consumer.name: {TOPIC: 1} for consumer in consumers}
    for consumer in consumers:
        assert consumer.membership.failure is None
        mine = assign(consumer.name, subscriptions, {TOPIC: range(field.count)})
        if consumer.reads != {one.partition for one in mine}:
            return False
    return len(field.readers) == (field.count if consumers else 0)


async def test_members_divide_the_partitions_and_divide_them_anew(store: EmbeddedStore) -> None:
    field = Field(10)
    one, two, three = (Consumer(field, store, name) for name in ("c1", "c2", "c3"))
    await one.join()
    await one.membership.settled()
    assert one.reads == set(range(10))
    await two.join()
    await until(lambda: is_divided(field, [one, two]))
    await three.join()
    await until(lambda: is_divided(field, [one, two, three]))
    assert [c.reads for c in (one, two, three)] == [set(range(4)), set(range(4, 8)), {8, 9}]
    await two.leave()
    await until(lambda: is_divided(field, [one, three]))
    await one.expire(store)
    await until(lambda: is_divided(field, [three]))
    field.grow(12)
    await until(lambda: is_divided(field, [three]))
    await three.leave()
    assert field.readers == {}
    watching = store.session()
    assert await watching.children(GroupPaths(GROUP).ids) == []
    assert await watching.children(f"/consumers/{GROUP}/owners/{TOPIC}") == []


async def test_an_owner_node_is_waited_for_and_never_taken(store: EmbeddedStore) -> None:
    field, paths = Field(2), GroupPaths(GROUP)
    stubborn = store.session()
    taken = paths.owner(TopicPartition(TOPIC, 1))
    await stubborn.ensure_path(taken.rpartition("/")[0])
    await stubborn.create(taken, b"somebody-0", ephemeral=True)
    consumer = Consumer(field, store, "c1", backoff_s=PATIENCE_S)
    await consumer.join()
    await until(lambda: consumer.reads == {0})
    await stubborn.close()
    await until(lambda: consumer.reads == {0, 1})
    await consumer.leave()


async def test_a_rebalance_that_others_never_allow_fails(store: EmbeddedStore) -> None:
    field, paths = Field(2), GroupPaths(GROUP)
    stubborn = store.session()
    taken = paths.owner(TopicPartition(TOPIC, 1))
    await stubborn.ensure_path(taken.rpartition("/")[0])
    await stubborn.create(taken, b"somebody-0", ephemeral=True)
    consumer = Consumer(field, store, "c1", backoff_s=0.01)
    await consumer.join()
    async with asyncio.timeout(PATIENCE_S):
        await consumer.membership.settled()
    assert isinstance(consumer.membership.failure, RebalanceFailedError)
    assert "t-1" in str(consumer.membership.failure)
    assert consumer.reads == {0}
    await consumer.leave()


async def test_a_name_that_an_earlier_session_holds_is_waited_for(store: EmbeddedStore) -> None:
    field = Field(1)
    earlier, later = Consumer(field, store, "same"), Consumer(field, store, "same")
    await earlier.join()
    await earlier.membership.settled()
    joining = asyncio.ensure_future(later.join())
    await asyncio.sleep(0.01)
    assert not joining.done()
    await earlier.expire(store)
    await joining
    await until(lambda: is_divided(field, [later]))
    await later.leave()


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_comes_and_goes_in_the_end_all_is_divided(
    store: EmbeddedStore, seed: int
) -> None:
    chance = random.Random(seed)
    field, there = Field(7), dict[str, Consumer]()
    for number in range(25):
        match chance.choice(["join", "join", "leave", "expire", "grow"]):
            case "leave" if there:
                await there.pop(chance.choice(sorted(there))).leave()
            case "expire" if there:
                await there.pop(chance.choice(sorted(there))).expire(store)
            case "grow":
                field.grow(field.count + chance.randint(0, 3))
            case _:
                consumer = Consumer(field, store, f"c{chance.randint(0, 99):02}-{number}")
                await consumer.join()
                there[consumer.name] = consumer
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random() * 0.005)
    await until(lambda: is_divided(field, list(there.values())))
    for consumer in there.values():
        await consumer.leave()
    assert field.readers == {}

"""One consumer's place in a group: registered, watching, and owning what the rule gives it.

Everybody watches the list of consumers and the topics, and when something changes works out the
same division. A partition is read by whoever holds its owner node, which is made before the first
record is read and deleted after the last offset is stored; so no partition is ever read by two,
however differently two consumers see the group for a moment. A node that is still another's is
waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

from moldau.client.zookeeper_consumer.assignment import assign
from moldau.client.zookeeper_consumer.nodes import (
    GroupPaths,
    decode_registration,
    encode_registration,
)
from moldau.client.zookeeper_consumer.topics import TopicSource
from moldau.coordination.errors import ConnectionLostError, NodeExistsError, NoNodeError
from moldau.coordination.paths import unescaped
from moldau.coordination.store import CoordinationStore, WatchEvent
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

logger = logging.getLogger(__name__)

Partitions = Collection[TopicPartition]

_PAUSE_S = 0.1
"""Before a rebalance that a failing broker or a broken connection interrupted starts over."""


class RebalanceFailedError(KafkaError):
    """Partitions that should be this consumer's stayed another's."""

    def __init__(self, partitions: Partitions) -> None:
        names = ", ".join(map(str, sorted(partitions)))
        message = f"other consumers did not give up {names}"
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS, message)


class Callbacks(NamedTuple):
    assigned: Callable[[Partitions], Awaitable[None]]
    """These are this consumer's now: start to read."""
    revoked: Callable[[Partitions], Awaitable[None]]
    """These must be given up: stop to read and store their offsets, then return."""


class Retries(NamedTuple):
    backoff_s: float
    at_most: int


class Membership:
    """Lives in one session, from ``join`` to ``leave`` or to the session's end."""

    def __init__(
        self,
        store: CoordinationStore,
        group: str,
        consumer: str,
        subscription: Mapping[str, int],
        topics: TopicSource,
        callbacks: Callbacks,
        retries: Retries,
    ) -> None:
        self.consumer = consumer
        self.owned: set[TopicPartition] = set()
        """What this consumer reads."""
        self._claimed: dict[TopicPartition, str] = {}
        """The owner nodes it holds, with the stream that is to read."""
        self._store = store
        self._paths = GroupPaths(group)
        self._subscription = dict(subscription)
        self._topics = topics
        self._callbacks = callbacks
        self._retries = retries
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self, now_ms: int) -> None:
        """Register; from now on partitions come and go."""
        await self._store.ensure_path(self._paths.ids)
        await self._register(
            self._paths.consumer(self.consumer), encode_registration(self._subscription, now_ms)
        )
        self.rebalance()
        self._task = asyncio.create_task(self._run(), name=f"rebalances of {self.consumer}")
        self._task.add_done_callback(lambda _task: self._settled.set())

    async def leave(self) -> None:
        """Give everything up and go."""
        await self.stop()
        await self._release(list(self._claimed))
        await self._remove(self._paths.consumer(self.consumer))

    async def stop(self) -> None:
        """Rebalance no more; what is owned stays until the session ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def failure(self) -> BaseException | None:
        """What ended the rebalances, if they have ended by themselves."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            return None
        return task.exception()

    async def settled(self) -> None:
        """Wait until this consumer has what it should have, as far as it knows; or until it will
        never have it."""
        await self._settled.wait()

    def rebalance(self) -> None:
        """Something may have changed: look, soon."""
        self._settled.clear()
        self._wanted.set()

    def _on_event(self, _event: WatchEvent) -> None:
        self.rebalance()

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                missing = await self._attempt()
            except (ConnectionLostError, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                logger.info("a rebalance starts over: %s", error)
                await asyncio.sleep(_PAUSE_S)
                self._wanted.set()
                continue
            if not missing:
                failures = 0
                if not self._wanted.is_set():
                    self._settled.set()
                continue
            try:
                async with asyncio.timeout(self._retries.backoff_s):
                    await self._wanted.wait()
            except TimeoutError:
                failures += 1
                if failures > self._retries.at_most:
                    raise RebalanceFailedError(missing) from None
                self._wanted.set()

    async def _attempt(self) -> Collection[TopicPartition]:
        """One rebalance; returns what others still have."""
        subscriptions = await self._members()
        if self.consumer not in subscriptions:
            return ()  # the session is at its end, which is told elsewhere
        partitions = {
            topic: await self._topics.partitions(self._store, topic, self._on_event)
            for topic in self._subscription
        }
        mine = assign(self.consumer, subscriptions, partitions)
        await self._release(
            [
                partition
                for partition, stream in self._claimed.items()
                if mine.get(partition) != stream
            ]
        )
        for partition, stream in mine.items():
            if partition not in self._claimed and await self._claim(partition, stream):
                self._claimed[partition] = stream
        new = [partition for partition in self._claimed if partition not in self.owned]
        if new:
            await self._callbacks.assigned(new)
            self.owned.update(new)
        return mine.keys() - self._claimed.keys()

    async def _members(self) -> dict[str, dict[str, int]]:
        names = await self._store.children(self._paths.ids, self._on_event)
        nodes = await self._store.get_many([f"{self._paths.ids}/{name}" for name in names])
        members = {}
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                consumer = unescaped(name)
                members[consumer] = decode_registration(consumer, node[0])
        return members

    async def _claim(self, partition: TopicPartition, stream: str) -> bool:
        path = self._paths.owner(partition)
        try:
            await self._store.create(path, stream.encode(), ephemeral=True)
        except NoNodeError:
            await self._store.ensure_path(path.rpartition("/")[0])
            return await self._claim(partition, stream)
        except NodeExistsError:
            stat = await self._store.exists(path, self._on_event)
            if stat is None:
                return await self._claim(partition, stream)
            # An earlier attempt of ours may have made it, over a connection that broke.
            return stat.ephemeral_owner == self._store.session_id
        return True

    async def _release(self, partitions: Partitions) -> None:
        if not partitions:
            return
        # Also for those whose assignment was broken off: reading may have begun.
        await self._callbacks.revoked(partitions)
        self.owned.difference_update(partitions)
        for partition in partitions:
            await self._remove(self._paths.owner(partition))
            del self._claimed[partition]

    async def _register(self, path: str, data: bytes) -> None:
        """Make the ephemeral node that says that this consumer is there."""
        while True:
            try:
                await self._store.create(path, data, ephemeral=True)
            except ConnectionLostError:
                continue
            except NodeExistsError:
                if not await self._is_mine(path):
                    continue
            return

    async def _is_mine(self, path: str) -> bool:
        """Returns whether a node is of this session; if it is of another, wait until it is gone."""
        gone: asyncio.Queue[WatchEvent] = asyncio.Queue()
        stat = await self._store.exists(path, gone.put_nowait)
        if stat is not None and stat.ephemeral_owner != self._store.session_id:
            # Most likely left by an earlier life of this consumer, whose session is about to end.
            logger.warning("%s is registered by another session: waiting", self.consumer)
            await gone.get()
            return False
        return stat is not None

    async def _remove(self, path: str) -> None:
        while True:
            try:
                await self._store.delete(path)
            except ConnectionLostError:
                continue
            except NoNodeError:
                pass
            return

"""The high-level consumer of Kafka's ZooKeeper time: group and offsets live in ZooKeeper.

For those who still have such groups: consumers divide the partitions among themselves through
ZooKeeper, and keep their offsets there; no broker knows of the group. Records come from any broker
of today. New programs use ``AsyncConsumer``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from moldau.client.closing import AsyncClosing
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import ReaderSettings
from moldau.client.consumer.records import EMPTY, ConsumerRecords
from moldau.client.errors import ClosedError, CommitFailedError, NoBrokersError
from moldau.client.offsets import OffsetSpec, list_offsets
from moldau.client.zookeeper_consumer.membership import Callbacks
from moldau.client.zookeeper_consumer.nodes import GroupPaths
from moldau.client.zookeeper_consumer.offsets import read_offsets, write_offsets
from moldau.client.zookeeper_consumer.reading import Reading
from moldau.client.zookeeper_consumer.session import Session, new_consumer_id, open_store
from moldau.client.zookeeper_consumer.settings import ZooKeeperConsumerSettings
from moldau.client.zookeeper_consumer.topics import ClusterTopics
from moldau.coordination.errors import CoordinationError, SessionExpiredError
from moldau.machine import Machine
from moldau.model import TopicPartition

logger = logging.getLogger(__name__)

_RENEWAL_PAUSE_S = 0.5
_LEAVE_TIMEOUT_S = 10.0


class AsyncZooKeeperConsumer(AsyncClosing):
    """``async with AsyncZooKeeperConsumer(zookeeper_connect=…, group_id=…, …) as consumer``.

    What ``poll`` hands out counts as processed when ``poll`` is called again; until then a
    rebalance leaves it to the next owner to read again.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        machine: Machine | None = None,
        **settings: object,
    ) -> None:
        self.settings = ZooKeeperConsumerSettings(config, **settings)
        self._cluster = Cluster(self.settings, machine)
        self.consumer_id = new_consumer_id(self.settings, self._cluster.machine)
        self._paths = GroupPaths(self.settings.group_id)
        self._topics = ClusterTopics(self._cluster, self._rebalance)
        self._reading = Reading(
            self._cluster,
            ReaderSettings(
                max_wait=self.settings.fetch_wait_max_ms / 1000,
                min_bytes=self.settings.fetch_min_bytes,
                partition_max_bytes=self.settings.fetch_message_max_bytes,
                out_of_range=self.settings.reset,
            ),
        )
        self._subscription: dict[str, int] = {}
        self._session: Session | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._processed: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        self._storing = asyncio.Lock()
        """A partition is given up when no write of its offset is under way any more."""
        self._closed = False

    async def subscribe(self, topics: Collection[str]) -> None:
        """Join the group for these topics; returns when the first rebalance is done."""
        if self._closed:
            raise ClosedError("The consumer is closed")
        await self._leave(_LEAVE_TIMEOUT_S)
        self._subscription = dict.fromkeys(topics, 1)
        await self._cluster.start()
        try:
            session = await self._begin()
        except CoordinationError as error:
            raise NoBrokersError(str(error)) from error
        self._tasks = [
            asyncio.create_task(self._live(), name="ZooKeeper session of a consumer"),
            asyncio.create_task(self._commit_now_and_then(), name="offsets to ZooKeeper"),
        ]
        await session.membership.settled()
        self._raise_failure()

    def assignment(self) -> set[TopicPartition]:
        """What this consumer owns and reads."""
        return set(self._reading.positions)

    def subscription(self) -> set[str]:
        return set(self._subscription)

    async def poll(self, timeout: float = 1.0, max_records: int = 500) -> ConsumerRecords:
        """Records of owned partitions; empty when there are none in this time."""
        if self._closed:
            raise ClosedError("The consumer is closed")
        loop = asyncio.get_running_loop()
        self._processed = dict(self._reading.positions)
        deadline = loop.time() + timeout
        while True:
            self._raise_failure()
            # Asked at the moment of handing out: others may have taken over while this one waited.
            if self._session is not None and self._session.lease.held:
                polled = self._reading.take(max_records)
                if polled:
                    return ConsumerRecords(polled)
            left = deadline - loop.time()
            if left <= 0:
                return EMPTY
            await self._reading.wait_for_news(left)

    async def commit(self) -> None:
        """Store the offsets of everything that was polled."""
        self._processed = dict(self._reading.positions)
        try:
            await self._store_offsets()
        except CoordinationError as error:
            raise CommitFailedError(message=str(error)) from error

    async def close(self, timeout: float = _LEAVE_TIMEOUT_S) -> None:
        """Store offsets (with ``auto.commit.enable``), give all partitions up and go.

        Without an answer of ZooKeeper in this time the session is left to expire.
        """
        if self._closed:
            return
        self._closed = True
        self._processed = dict(self._reading.positions)
        try:
            await self._leave(timeout)
        finally:
            await self._reading.stop()
            await self._cluster.close()

    # Sessions

    async def _begin(self) -> Session:
        store = await open_store(self.settings)
        self._session = Session(
            store,
            self.settings,
            self._topics,
            self.consumer_id,
            self._subscription,
            Callbacks(self._on_assigned, self._on_revoked),
            self._reading.wake,
            self._cluster.machine.clock,
        )
        await self._session.begin()
        return self._session

    async def _live(self) -> None:
        """When the session is lost, everything is: begin anew in another one."""
        while True:
            assert self._session is not None
            await self._session.expired.wait()
            logger.warning("the ZooKeeper session of %s expired", self.consumer_id)
            await self._session.end()
            await self._forget()
            while True:
                try:
                    await self._begin()
                    break
                except CoordinationError as error:
                    logger.warning("no new ZooKeeper session yet: %s", error)
                    await self._session.end()
                    await asyncio.sleep(_RENEWAL_PAUSE_S)

    async def _leave(self, timeout: float) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self._session.leave()
            except (SessionExpiredError, TimeoutError):
                logger.warning("%s leaves without ZooKeeper's answer", self.consumer_id)
                await self._session.end()
            self._session = None
        await self._forget()

    async def _forget(self) -> None:
        """Nothing is this consumer's any more."""
        await self._reading.remove(list(self._reading.positions))
        self._processed.clear()
        self._stored.clear()

    def _rebalance(self) -> None:
        if self._session is not None:
            self._session.membership.rebalance()

    def _raise_failure(self) -> None:
        if self._session is not None:
            failure = self._session.membership.failure
            if failure is not None and not isinstance(failure, SessionExpiredError):
                raise failure

    # Partitions and offsets

    async def _on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        assert self._session is not None
        positions = await read_offsets(self._session.store, self._paths, partitions)
        self._stored |= positions
        missing = [partition for partition in partitions if partition not in positions]
        if missing:
            earliest = self.settings.reset == "earliest"
            spec = OffsetSpec.EARLIEST if earliest else OffsetSpec.LATEST
            starts = await list_offsets(self._cluster, dict.fromkeys(missing, spec))
            positions |= {partition: answer.offset for partition, answer in starts.items()}
        await self._reading.add(positions)

    async def _on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._reading.remove(partitions)
        if self.settings.auto_commit_enable:
            await self._store_offsets(also=partitions)
        for partition in partitions:
            self._processed.pop(partition, None)
            self._stored.pop(partition, None)

    async def _commit_now_and_then(self) -> None:
        while self.settings.auto_commit_enable:
            await asyncio.sleep(self.settings.auto_commit_interval_ms / 1000)
            try:
                await self._store_offsets()
            except CoordinationError as error:
                logger.warning("offsets are not stored now: %s", error)

    async def _store_offsets(self, also: Collection[TopicPartition] = ()) -> None:
        """Store what was processed of the partitions that are read, and of those in ``also``."""
        async with self._storing:
            mine = {*self._reading.positions, *also}
            changed = {
                partition: offset
                for partition, offset in self._processed.items()
                if partition in mine and self._stored.get(partition) != offset
            }
            if changed and self._session is not None:
                await write_offsets(self._session.store, self._paths, changed)
                self._stored |= changed

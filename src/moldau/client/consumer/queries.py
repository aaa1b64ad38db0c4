"""What a consumer can be asked about: its own state, its group, and the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from moldau.client import arguments
from moldau.client.consumer.committer import Committer
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.types import ConsumerGroupMetadata
from moldau.client.errors import TimedOutError
from moldau.client.metadata import PartitionInfo, TopicInfo
from moldau.client.offsets import OffsetSpec, list_offsets
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


class ConsumerQueries:
    """The part of ``AsyncConsumer`` that changes nothing."""

    settings: ConsumerSettings
    _core: ConsumerCore

    # -- about this consumer

    def subscription(self) -> frozenset[str]:
        """Topics subscribed to, or what the pattern stands for now."""
        return self._core.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._core.subscription.partitions)

    def paused(self) -> frozenset[TopicPartition]:
        states = self._core.subscription.partitions
        return frozenset(partition for partition, state in states.items() if state.paused)

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset that is read next; looks it up if need be."""
        within = self._api_timeout if timeout is None else timeout
        core = self._core
        core.start()
        core.kick()
        try:
            async with asyncio.timeout(within):
                while True:
                    core.news.clear()
                    core.raise_failure()
                    position = core.subscription.state(partition).position
                    if position is not None:
                        return position.offset
                    await core.news.wait()
        except TimeoutError:
            raise TimedOutError(f"No position of {partition} after {within:g} s") from None

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets this consumer is behind; None before the first fetch."""
        state = self._core.subscription.state(partition)
        read_committed = self.settings.isolation_level == "read_committed"
        end = state.last_stable_offset if read_committed else state.high_watermark
        if state.position is None or end < 0:
            return None
        return max(0, end - state.position.offset)

    # -- about its group

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is."""
        committer = self._group("committed()")
        wanted = arguments.partitions(partitions, "committed()")
        within = self._api_timeout if timeout is None else timeout
        offsets = await committer.committed(wanted, within) if wanted else {}
        return {partition: offsets.get(partition) for partition in wanted}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For ``producer.send_offsets_to_transaction``."""
        self._group("group_metadata()")
        assert self._core.driver is not None
        member = self._core.driver.member
        group, instance = self.settings.group_id or "", self.settings.group_instance_id
        if not member.joined:
            return ConsumerGroupMetadata(group, group_instance_id=instance)
        owner = member.owner
        return ConsumerGroupMetadata(group, owner.generation, owner.member_id, instance)

    # -- about the cluster

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        wanted = arguments.partitions(partitions, "beginning_offsets()")
        offsets = await self._list_offsets(dict.fromkeys(wanted, OffsetSpec.EARLIEST), timeout)
        return {partition: at.offset for partition, at in offsets.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets after the last record that this consumer can see."""
        wanted = arguments.partitions(partitions, "end_offsets()")
        offsets = await self._list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), timeout)
        return {partition: at.offset for partition, at in offsets.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time in milliseconds; None where there is none."""
        wanted = arguments.by_partition(timestamps, "offsets_for_times()")
        if any(timestamp < 0 for timestamp in wanted.values()):
            raise ValueError("a timestamp is not negative")
        offsets = await self._list_offsets(wanted, timeout)
        return {key: at if at.offset >= 0 else None for key, at in offsets.items()}

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        info = await self._core.cluster.topic(topic, within=self._api_timeout)
        return list(info.partitions.values())

    async def topics(self) -> dict[str, TopicInfo]:
        """All topics that this consumer may see, by name."""
        return dict((await self._core.cluster.refresh(None)).topics)

    # -- parts

    @property
    def _api_timeout(self) -> float:
        return self.settings.default_api_timeout_ms / 1000

    def _group(self, what: str) -> Committer:
        if self._core.committer is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"{what} needs a group.id")
        return self._core.committer

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(
            self._core.cluster,
            timestamps,
            read_committed=self.settings.isolation_level == "read_committed",
            within=self._api_timeout if timeout is None else timeout,
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

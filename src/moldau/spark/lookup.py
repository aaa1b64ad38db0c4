"""What the driver asks the cluster: which partitions there are, and which offsets they have.

Spark starts a process for each streaming query to ask in; what few queries need is imported late.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from moldau.client.blocking import LoopThread
from moldau.client.cluster import Cluster
from moldau.client.errors import UnknownTopicError
from moldau.client.offsets import list_offsets
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.spark.offsets import EARLIEST, LATEST, PartitionOffsets, to_nested
from moldau.spark.options import OptionError, ReadOptions, Subscription, Where

_NOT_FOUND = -1


class OffsetLookup:
    """Blocking; a connection is made with the first question."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._thread = LoopThread("Spark source")
        self._cluster: Cluster | None = None

    def close(self) -> None:
        if self._cluster is not None:
            self._thread.run(self._cluster.close())
            self._cluster = None
        self._thread.stop()

    def partitions(self) -> list[TopicPartition]:
        """What the subscription means now."""
        return self._thread.run(self._partitions(self._options.subscription))

    def earliest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """With read_committed, the offsets up to which transactions are decided."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def resolve(
        self, where: Where, partitions: Collection[TopicPartition], *, ending: bool = False
    ) -> PartitionOffsets:
        """Offsets for what an option says of these partitions."""
        if where.everywhere is not None:
            return self._offsets(dict.fromkeys(partitions, where.everywhere))
        if where.timestamp is not None:
            return self._at(dict.fromkeys(partitions, where.timestamp), ending=ending)
        option = "endingOffsets" if ending else "startingOffsets"
        if where.timestamps:
            _check_complete(where.timestamps, partitions, f"{option}ByTimestamp")
            return self._at(where.timestamps, ending=ending)
        _check_complete(where.offsets, partitions, option)
        special = {part: offset for part, offset in where.offsets.items() if offset < 0}
        return {**where.offsets, **self._offsets(special)}

    def commit(self, group: str, offsets: PartitionOffsets) -> None:
        """Offsets of a group without members; raises the first refusal."""
        self._thread.run(self._commit(group, offsets))

    def at_timestamp(self, partitions: Collection[TopicPartition], when: int) -> PartitionOffsets:
        """The first offset at or after a time; -1 where no record is that young."""
        return self._offsets(dict.fromkeys(partitions, when))

    def _at(self, timestamps: PartitionOffsets, *, ending: bool) -> PartitionOffsets:
        found = dict(self._offsets(timestamps))
        late = [partition for partition, offset in found.items() if offset == _NOT_FOUND]
        if late and not ending and self._options.by_timestamp_strategy == "error":
            raise OptionError(
                f"No record of {', '.join(map(str, late))} is at or after the time to start from; "
                "startingOffsetsByTimestampStrategy=latest starts at their ends then"
            )
        return {**found, **self.latest(late)}

    def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._thread.run(self._list(timestamps)) if timestamps else {}

    async def _list(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        answers = await list_offsets(
            self._open(), timestamps, read_committed=self._options.read_committed
        )
        return {partition: answer.offset for partition, answer in answers.items()}

    async def _partitions(self, subscription: Subscription) -> list[TopicPartition]:
        cluster = self._open()
        if subscription.pattern is not None:
            from moldau.client.admin.async_admin import AsyncAdmin

            pattern = re.compile(subscription.pattern)
            found = await AsyncAdmin.over(cluster).list_topics()
            infos = [info for info in found if pattern.fullmatch(info.name)]
            return [TopicPartition(info.name, n) for info in infos for n in info.partitions]
        names = subscription.topics or {partition.topic for partition in subscription.partitions}
        for name in names:
            cluster.forget(name)
        known = {name: (await cluster.topic(name)).partitions for name in names}
        for partition in subscription.partitions:
            if partition.partition not in known[partition.topic]:
                raise UnknownTopicError(partition.topic, partition.partition)
        if subscription.partitions:
            return list(subscription.partitions)
        return [TopicPartition(name, number) for name in names for number in known[name]]

    async def _commit(self, group: str, offsets: PartitionOffsets) -> None:
        from moldau.client.admin.async_admin import AsyncAdmin

        committed = {part: OffsetAndMetadata(offset) for part, offset in offsets.items()}
        admin = AsyncAdmin.over(self._open())
        for outcome in await admin.alter_group_offsets(group, committed):
            if outcome.error is not None:
                raise outcome.error

    def _open(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.settings)
        return self._cluster


def _check_complete(
    given: PartitionOffsets, partitions: Collection[TopicPartition], option: str
) -> None:
    if set(given) != set(partitions):
        there: Any = to_nested(dict.fromkeys(partitions, LATEST))
        raise OptionError(
            f"Option {option} must name all partitions that are read, and no others "
            f"(-1 is latest, -2 earliest): {there}"
        )

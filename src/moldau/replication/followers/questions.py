"""What a follower that has lost its place asks its leader."""

from __future__ import annotations

from typing import Final

from kio.schema.list_offsets.v11.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from moldau.model import TopicPartition
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import check
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_LATEST: Final = -1
_EARLIEST: Final = -2


class LeaderQuestions:
    """Over the fetcher's own connection; an error is that of the partition."""

    def __init__(self, connection: BrokerConnection, replica_id: int, within: float) -> None:
        self._connection = connection
        self._replica_id = replica_id
        self._within = within

    async def log_start(self, key: TopicPartition, leader_epoch: int) -> int:
        """Returns where the leader's log begins."""
        return await self._offset(key, leader_epoch, _EARLIEST)

    async def log_end(self, key: TopicPartition, leader_epoch: int) -> int:
        """Returns where the leader's log ends, committed or not."""
        return await self._offset(key, leader_epoch, _LATEST)

    async def _offset(self, key: TopicPartition, leader_epoch: int, timestamp: int) -> int:
        request = make(
            ListOffsetsRequest,
            replica_id=self._replica_id,
            isolation_level=0,
            topics=(
                make(
                    ListOffsetsTopic,
                    name=key.topic,
                    partitions=(
                        make(
                            ListOffsetsPartition,
                            partition_index=key.partition,
                            current_leader_epoch=leader_epoch,
                            timestamp=timestamp,
                        ),
                    ),
                ),
            ),
            timeout=round(self._within * 1000),
        )
        answer = await self._connection.request(ApiKey.LIST_OFFSETS, request, within=self._within)
        (topic,) = answer.topics
        (partition,) = topic.partitions
        check(partition.error_code)
        return int(partition.offset)

    async def epoch_end(
        self, key: TopicPartition, leader_epoch: int, epoch: int
    ) -> tuple[int, int]:
        """Returns the leader's largest epoch up to ``epoch``, and where it ends."""
        request = make(
            OffsetForLeaderEpochRequest,
            replica_id=self._replica_id,
            topics=(
                make(
                    OffsetForLeaderTopic,
                    topic=key.topic,
                    partitions=(
                        make(
                            OffsetForLeaderPartition,
                            partition=key.partition,
                            current_leader_epoch=leader_epoch,
                            leader_epoch=epoch,
                        ),
                    ),
                ),
            ),
        )
        answer = await self._connection.request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, request, within=self._within
        )
        (topic,) = answer.topics
        (partition,) = topic.partitions
        check(partition.error_code)
        return partition.leader_epoch, partition.end_offset

"""Looking up offsets at the leaders of partitions: by time, first and last ones, ends of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

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

from moldau.client.cluster import Cluster
from moldau.client.routing import ask_leaders, by_topic
from moldau.errors import KafkaError
from moldau.model import OffsetAndTimestamp, TopicPartition
from moldau.request_errors import error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


class OffsetSpec(IntEnum):
    """Special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    within: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after each timestamp; raises the first error that stays."""
    answers = await offsets_or_errors(
        cluster, timestamps, read_committed=read_committed, within=within
    )
    offsets = {}
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise answer
        offsets[partition] = answer
    return offsets


async def offsets_or_errors(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    within: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """The same; the error of each partition that has one."""

    async def ask(node_id: int, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        request = make(
            ListOffsetsRequest,
            replica_id=-1,
            isolation_level=1 if read_committed else 0,
            topics=tuple(
                make(
                    ListOffsetsTopic,
                    name=topic,
                    partitions=tuple(
                        make(
                            ListOffsetsPartition,
                            partition_index=partition,
                            current_leader_epoch=-1,
                            timestamp=timestamp,
                        )
                        for partition, timestamp in partitions.items()
                    ),
                )
                for topic, partitions in by_topic(wanted).items()
            ),
            timeout=round(cluster.request_timeout * 1000),
        )
        connection = await cluster.connection(node_id)
        answer = await connection.request(ApiKey.LIST_OFFSETS, request)
        return {
            TopicPartition(topic.name, p.partition_index): (
                error_of(p.error_code) or OffsetAndTimestamp(p.offset, p.timestamp, p.leader_epoch)
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    return await ask_leaders(cluster, timestamps, ask, within=within)


async def epoch_ends(
    cluster: Cluster,
    epochs: Mapping[TopicPartition, tuple[int, int]],
    *,
    within: float | None = None,
) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
    """Where leader epochs end (KIP-320): asked with an epoch and the leader's current one.

    The answer is the largest epoch not above the one asked for, and the offset after its last
    record; -1 where the leader knows of none.
    """

    async def ask(
        node_id: int, wanted: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, Any]:
        request = make(
            OffsetForLeaderEpochRequest,
            replica_id=-1,
            topics=tuple(
                make(
                    OffsetForLeaderTopic,
                    topic=topic,
                    partitions=tuple(
                        make(
                            OffsetForLeaderPartition,
                            partition=partition,
                            current_leader_epoch=current,
                            leader_epoch=epoch,
                        )
                        for partition, (epoch, current) in partitions.items()
                    ),
                )
                for topic, partitions in by_topic(wanted).items()
            ),
        )
        connection = await cluster.connection(node_id)
        answer = await connection.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, request)
        return {
            TopicPartition(topic.topic, p.partition): (
                error_of(p.error_code) or (p.leader_epoch, p.end_offset)
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    return await ask_leaders(cluster, epochs, ask, within=within)

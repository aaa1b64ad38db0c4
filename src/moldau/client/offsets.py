"""Looking up offsets by time, or the first and last ones, at the leaders of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from kio.schema.list_offsets.v11.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from moldau.client.cluster import Cluster
from moldau.client.errors import error_of
from moldau.client.routing import ask_leaders, by_topic
from moldau.errors import KafkaError
from moldau.model import OffsetAndTimestamp, TopicPartition
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

    answers = await ask_leaders(cluster, timestamps, ask, within=within)
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
    return answers

"""Requests that go to the leaders of partitions: look up offsets, delete records.

Partitions are grouped by leader; those whose leader has moved are asked again, the others are not.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.list_offsets.v11.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from moldau.client.admin_types import OffsetAndTimestamp, Outcome
from moldau.client.backoff import Backoff
from moldau.client.cluster import Cluster
from moldau.client.errors import error_of
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_AskLeader = Callable[[int, dict[TopicPartition, int]], Awaitable[dict[TopicPartition, Any]]]
"""Node id and what is asked per partition → a value or a KafkaError per partition."""


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
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
                for topic, partitions in _by_topic(wanted).items()
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

    answers = await _ask_leaders(cluster, timestamps, ask)
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
    return answers


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> list[Outcome[int]]:
    async def ask(node_id: int, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        request = make(
            DeleteRecordsRequest,
            topics=tuple(
                make(
                    DeleteRecordsTopic,
                    name=topic,
                    partitions=tuple(
                        make(DeleteRecordsPartition, partition_index=partition, offset=offset)
                        for partition, offset in partitions.items()
                    ),
                )
                for topic, partitions in _by_topic(wanted).items()
            ),
            timeout=round(cluster.request_timeout * 1000),
        )
        connection = await cluster.connection(node_id)
        answer = await connection.request(ApiKey.DELETE_RECORDS, request)
        return {
            TopicPartition(topic.name, p.partition_index): (
                error_of(p.error_code) or p.low_watermark
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    answers = await _ask_leaders(cluster, before, ask)
    return [
        Outcome(str(partition), None, answer)
        if isinstance(answer, KafkaError)
        else Outcome(str(partition), answer)
        for partition, answer in answers.items()
    ]


def _by_topic(wanted: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    topics: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), value in wanted.items():
        topics[topic][partition] = value
    return topics


async def _ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], ask: _AskLeader
) -> dict[TopicPartition, Any]:
    """Every partition's answer: a value, or the error that did not go away in time."""
    answers: dict[TopicPartition, Any] = {}
    backoff = Backoff(cluster.request_timeout)
    left = dict(wanted)
    while left:
        answers.update(await _ask_once(cluster, left, ask))
        left = {
            partition: value
            for partition, value in wanted.items()
            if isinstance(answers[partition], KafkaError) and answers[partition].retriable
        }
        if not left:
            break
        for topic in {partition.topic for partition in left}:
            cluster.forget(topic)
        try:
            await backoff.pause(next(answers[partition] for partition in left))
        except KafkaError:
            break
    return {partition: answers[partition] for partition in wanted}


async def _ask_once(
    cluster: Cluster, wanted: dict[TopicPartition, int], ask: _AskLeader
) -> dict[TopicPartition, Any]:
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    answers: dict[TopicPartition, Any] = {}
    for partition, value in wanted.items():
        try:
            leader, _ = await cluster.leader(partition)
            by_leader[leader][partition] = value
        except KafkaError as error:
            if not error.retriable:
                raise
            answers[partition] = error

    async def ask_one(node_id: int, group: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        try:
            return await ask(node_id, group)
        except KafkaError as error:
            return dict.fromkeys(group, error)

    for found in await asyncio.gather(*(ask_one(*item) for item in by_leader.items())):
        answers.update(found)
    return answers

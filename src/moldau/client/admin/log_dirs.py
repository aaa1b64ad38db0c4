"""Where replicas lie on their brokers' disks, and moving them to another directory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import LogDir, Outcome, Replica
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def describe_log_dirs(caller: Caller, node_ids: Collection[int] | None) -> list[LogDir]:
    if node_ids is None:
        await caller.refresh(())
        node_ids = list(caller.cluster.metadata.nodes)

    async def of_broker(node_id: int) -> list[LogDir]:
        answer = await caller.broker(
            node_id, ApiKey.DESCRIBE_LOG_DIRS, make(DescribeLogDirsRequest, topics=None)
        )
        check(answer.error_code)
        return [_read(node_id, result) for result in answer.results]

    by_broker = await asyncio.gather(*map(of_broker, node_ids))
    return [log_dir for log_dirs in by_broker for log_dir in log_dirs]


async def alter_replica_log_dirs(
    caller: Caller, moves: Mapping[Replica, str]
) -> list[Outcome[str]]:
    by_node: dict[int, dict[Replica, str]] = defaultdict(dict)
    for replica, path in moves.items():
        by_node[replica.node_id][replica] = path

    async def on_broker(node_id: int, own: dict[Replica, str]) -> dict[Replica, KafkaError | None]:
        try:
            answer = await caller.broker(node_id, ApiKey.ALTER_REPLICA_LOG_DIRS, _request(own))
        except KafkaError as error:
            return dict.fromkeys(own, error)
        return {
            Replica(topic.topic_name, p.partition_index, node_id): error_of(p.error_code)
            for topic in answer.results
            for p in topic.partitions
        }

    errors: dict[Replica, KafkaError | None] = {}
    for refusals in await asyncio.gather(*(on_broker(*item) for item in by_node.items())):
        errors.update(refusals)
    return [Outcome(str(replica), path, errors[replica]) for replica, path in moves.items()]


def _request(moves: Mapping[Replica, str]) -> AlterReplicaLogDirsRequest:
    paths: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for replica, path in moves.items():
        paths[path][replica.topic].append(replica.partition)
    return make(
        AlterReplicaLogDirsRequest,
        dirs=tuple(
            make(
                AlterReplicaLogDir,
                path=path,
                topics=tuple(
                    make(AlterReplicaLogDirTopic, name=topic, partitions=tuple(partitions))
                    for topic, partitions in topics.items()
                ),
            )
            for path, topics in paths.items()
        ),
    )


def _read(node_id: int, result: Any) -> LogDir:
    sizes: dict[TopicPartition, int] = {}
    future: dict[TopicPartition, int] = {}
    for topic in result.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            (future if partition.is_future_key else sizes)[key] = partition.partition_size
    return LogDir(
        node_id,
        result.log_dir,
        error_of(result.error_code),
        sizes,
        result.total_bytes,
        result.usable_bytes,
        future,
        result.is_cordoned,
    )

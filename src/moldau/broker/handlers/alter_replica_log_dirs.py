"""AlterReplicaLogDirs (key 34, versions 1-2): move replicas between this broker's log directories.

Behaviour: answers when the moves have begun; DescribeLogDirs shows them as future replicas with
their lag until they take over. A move to where the replica already is cancels one that is under
way. For a replica that is not here the directory is remembered, for when it is made, and the answer
is REPLICA_NOT_AVAILABLE. A path that is not in ``log.dirs`` is LOG_DIR_NOT_FOUND, a directory or
replica on a failed disk KAFKA_STORAGE_ERROR (KIP-113), a cordoned directory
INVALID_REPLICA_ASSIGNMENT (KIP-1066).
Known deviations: a full disk makes a move wait, where Kafka takes the directory offline.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.wire.make import make

log = logging.getLogger(__name__)


async def handle(request: Request[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    return _response(
        {
            topic_partition: await _move(request.broker, topic_partition, path)
            for topic_partition, path in _destinations(request.body).items()
        }
    )


def error_answer(
    request: Request[AlterReplicaLogDirsRequest], error: KafkaError
) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_destinations(request.body), error.code))


def _destinations(body: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in body.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


async def _move(broker: Broker, topic_partition: TopicPartition, path: str) -> ErrorCode:
    try:
        await broker.logs.alter_replica_dir(topic_partition, path)
    except KafkaError as error:
        log.info("%s is not moved to %s: %s", topic_partition, path, error)
        unknown = error.code is ErrorCode.REPLICA_NOT_AVAILABLE and not (
            broker.metadata.has_partition(*topic_partition)
        )
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else error.code
    return ErrorCode.NONE


def _response(codes: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            make(AlterReplicaLogDirPartitionResult, partition_index=index, error_code=code)
        )
    return make(
        AlterReplicaLogDirsResponse,
        results=tuple(
            make(AlterReplicaLogDirTopicResult, topic_name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )

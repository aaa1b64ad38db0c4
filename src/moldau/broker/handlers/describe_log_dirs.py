"""DescribeLogDirs (key 35, versions 1-5): what is in the log directories, how full disks are.

Behaviour: without a topic list every partition is described. A failed directory is answered with
KAFKA_STORAGE_ERROR. The copy of a replica that is being moved to another directory is shown there
as a future one, with how far it is behind.
Known deviations: none.
"""

from __future__ import annotations

from collections import defaultdict

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogDirInfo, ReplicaInfo
from moldau.machine.disk import DiskUsage
from moldau.wire.make import make

UNKNOWN = DiskUsage(-1, -1)


async def handle(request: Request[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    topics, broker = request.body.topics, request.broker
    wanted: set[tuple[str, int]] | None = None
    if topics is not None:
        wanted = {(topic.topic, index) for topic in topics for index in topic.partitions}
    usage = await broker.logs.disk_usage()
    return make(
        DescribeLogDirsResponse,
        error_code=ErrorCode.NONE,
        results=tuple(
            [
                await _describe(broker, directory, wanted, usage.get(directory.path, UNKNOWN))
                for directory in broker.logs.describe_dirs()
            ]
        ),
    )


def error_answer(
    _request: Request[DescribeLogDirsRequest], error: KafkaError
) -> DescribeLogDirsResponse:
    """Before version 3 there is no place for the error: no directories are all that is told."""
    return make(DescribeLogDirsResponse, error_code=error.code, results=())


async def _describe(
    broker: Broker,
    directory: LogDirInfo,
    wanted: set[tuple[str, int]] | None,
    usage: DiskUsage,
) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return make(
            DescribeLogDirsResult,
            error_code=ErrorCode.KAFKA_STORAGE_ERROR,
            log_dir=directory.path,
            topics=(),
        )
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    async for replica in in_turns(directory.replicas):
        topic, _ = replica.topic_partition
        if wanted is None or replica.topic_partition in wanted:
            topics[topic].append(_describe_replica(broker, replica))
    return make(
        DescribeLogDirsResult,
        error_code=ErrorCode.NONE,
        log_dir=directory.path,
        topics=tuple(
            make(DescribeLogDirsTopic, name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=usage.total,
        usable_bytes=usage.free,
        is_cordoned=directory.cordoned,
    )


def _describe_replica(broker: Broker, replica: ReplicaInfo) -> DescribeLogDirsPartition:
    topic, index = replica.topic_partition
    if replica.future_lag is not None:
        return make(
            DescribeLogDirsPartition,
            partition_index=index,
            partition_size=replica.size,
            offset_lag=replica.future_lag,
            is_future_key=True,
        )
    partition = broker.replicas.topics.get(topic, {}).get(index)
    high_watermark = replica.log_end_offset if partition is None else partition.high_watermark
    return make(
        DescribeLogDirsPartition,
        partition_index=index,
        partition_size=replica.size,
        offset_lag=max(high_watermark - replica.log_end_offset, 0),
        is_future_key=False,
    )

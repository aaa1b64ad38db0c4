"""Who leads and who holds partitions: elections and reassignments, through the controller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import Outcome, Reassignment
from moldau.client.routing import by_topic
from moldau.errors import ErrorCode
from moldau.model import ElectionType, TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def elect_leaders(
    caller: Caller, kind: ElectionType, partitions: Collection[TopicPartition] | None
) -> list[Outcome[TopicPartition]]:
    wanted = None
    if partitions is not None:
        wanted = tuple(
            make(TopicPartitions, topic=topic, partitions=numbers)
            for topic, numbers in _numbers(partitions).items()
        )
    request = make(
        ElectLeadersRequest,
        election_type=int(kind),
        topic_partitions=wanted,
        timeout=caller.timeout_ms,
    )
    answer = await caller.controller(ApiKey.ELECT_LEADERS, request, lambda a: [a.error_code])
    check(answer.error_code)
    results = {
        TopicPartition(topic.topic, result.partition_id): result
        for topic in answer.replica_election_results
        for result in topic.partition_result
    }
    for topic in dict.fromkeys(partition.topic for partition in results):
        caller.cluster.forget(topic)
    outcomes = []
    for partition in sorted(results) if partitions is None else partitions:
        result = results[partition]
        needed = result.error_code != ErrorCode.ELECTION_NOT_NEEDED
        error = error_of(result.error_code, result.error_message) if needed else None
        if needed or partitions is not None:
            outcomes.append(Outcome(str(partition), partition, error))
    return outcomes


async def alter_reassignments(
    caller: Caller, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> list[Outcome[TopicPartition]]:
    request = make(
        AlterPartitionReassignmentsRequest,
        timeout=caller.timeout_ms,
        allow_replication_factor_change=True,
        topics=tuple(
            make(
                ReassignableTopic,
                name=topic,
                partitions=tuple(
                    make(
                        ReassignablePartition,
                        partition_index=partition,
                        replicas=None if replicas is None else tuple(replicas),
                    )
                    for partition, replicas in partitions.items()
                ),
            )
            for topic, partitions in by_topic(targets).items()
        ),
    )
    answer = await caller.controller(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, lambda a: [a.error_code]
    )
    check(answer.error_code, answer.error_message)
    errors = {
        TopicPartition(topic.name, p.partition_index): error_of(p.error_code, p.error_message)
        for topic in answer.responses
        for p in topic.partitions
    }
    return [Outcome(str(partition), partition, errors[partition]) for partition in targets]


async def list_reassignments(
    caller: Caller, partitions: Collection[TopicPartition] | None
) -> dict[TopicPartition, Reassignment]:
    wanted = None
    if partitions is not None:
        wanted = tuple(
            make(ListPartitionReassignmentsTopics, name=topic, partition_indexes=numbers)
            for topic, numbers in _numbers(partitions).items()
        )
    request = make(ListPartitionReassignmentsRequest, timeout=caller.timeout_ms, topics=wanted)
    answer = await caller.controller(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, request, lambda a: [a.error_code]
    )
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _numbers(partitions: Collection[TopicPartition]) -> dict[str, tuple[int, ...]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        numbers[topic].append(partition)
    return {topic: tuple(partitions) for topic, partitions in numbers.items()}

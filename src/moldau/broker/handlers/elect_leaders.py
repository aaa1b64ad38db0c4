"""ElectLeaders (key 43, versions 0-2): preferred leaders, or any for partitions without one.

Behaviour: the controller decides (KIP-460). Where the leader is the wanted one already,
ELECTION_NOT_NEEDED, which is left out if all partitions were meant (null). Version 0 knows only
preferred leaders.
Known deviations: the request's timeout as in CreateTopics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from moldau.broker.request import Request
from moldau.controller import PartitionResult as Election
from moldau.errors import ErrorCode, KafkaError
from moldau.model import ElectionType, TopicPartition
from moldau.wire.make import make


async def handle(request: Request[ElectLeadersRequest]) -> ElectLeadersResponse:
    try:
        kind = ElectionType(request.body.election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.body.election_type}"
        ) from None
    partitions = _partitions(request.body)
    elections = await request.controller.elect_leaders(kind, partitions)
    return _response(ErrorCode.NONE, _by_topic(request.body, elections))


def error_answer(request: Request[ElectLeadersRequest], error: KafkaError) -> ElectLeadersResponse:
    partitions = _partitions(request.body) or []
    elections = [Election.of(partition, error) for partition in partitions]
    return _response(error.code, _by_topic(request.body, elections))


def _partitions(body: ElectLeadersRequest) -> list[TopicPartition] | None:
    if body.topic_partitions is None:
        return None
    return [
        TopicPartition(topic.topic, partition)
        for topic in body.topic_partitions
        for partition in topic.partitions
    ]


def _by_topic(
    body: ElectLeadersRequest, elections: Sequence[Election]
) -> Iterable[tuple[str, Sequence[Election]]]:
    """Returns the elections of each topic: as it was asked for, or of every topic there is."""
    if body.topic_partitions is not None:
        rest = iter(elections)
        return [
            (topic.topic, list(islice(rest, len(topic.partitions))))
            for topic in body.topic_partitions
        ]
    topics: dict[str, list[Election]] = {}
    for election in elections:
        held = topics.setdefault(election.topic, [])
        if election.error is not ErrorCode.ELECTION_NOT_NEEDED:
            held.append(election)
    return topics.items()


def _response(
    code: ErrorCode, topics: Iterable[tuple[str, Sequence[Election]]]
) -> ElectLeadersResponse:
    return make(
        ElectLeadersResponse,
        error_code=code,
        replica_election_results=tuple(
            make(
                ReplicaElectionResult,
                topic=topic,
                partition_result=tuple(
                    make(
                        PartitionResult,
                        partition_id=election.partition,
                        error_code=election.error,
                        error_message=election.message,
                    )
                    for election in elections
                ),
            )
            for topic, elections in topics
        ),
    )

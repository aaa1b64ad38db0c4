"""Elections and reassignments that clients ask for."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.unit.controller.harness import Cluster
from tests.unit.controller.test_controller_cluster import check_agreement, three_brokers

from moldau.controller import NewReplicas, NewTopic, PartitionResult
from moldau.controller.balancing import unbalanced
from moldau.controller.link import LeaderAndIsr
from moldau.coordination import paths, znodes
from moldau.errors import ErrorCode
from moldau.model import ElectionType, TopicPartition

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


async def cluster_with(*assignments: Sequence[int]) -> Cluster:
    """Three brokers and a topic ``t``."""
    cluster = await three_brokers()
    topic = NewTopic(name="t", assignments=list(enumerate(assignments)))
    (created,) = await cluster.active.create_topics([topic])
    assert created.error is ErrorCode.NONE
    return cluster


def leaders(cluster: Cluster) -> list[int]:
    return [state.leader for _, state in sorted(cluster.brokers[3].metadata.items())]


def codes(results: Sequence[PartitionResult]) -> list[tuple[str, int, ErrorCode]]:
    return [(result.topic, result.partition, result.error) for result in results]


async def rejoin(cluster: Cluster, broker: int, partition: TopicPartition) -> None:
    """The leader takes a follower back among the in-sync replicas."""
    state = cluster.brokers[3].metadata[partition]
    result = await cluster.alter_isr(state, *state.isr, broker)
    assert result.error is ErrorCode.NONE


async def test_leadership_goes_back_to_the_first_replica_once_it_is_in_sync() -> None:
    cluster = await cluster_with([2, 3], [3, 2])
    await cluster.kill(2)
    await cluster.start(2)
    assert leaders(cluster) == [3, 3]
    early = await cluster.active.elect_leaders(PREFERRED, [FIRST, SECOND])
    assert codes(early) == [
        ("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    await rejoin(cluster, 2, FIRST)
    assert codes(await cluster.active.elect_leaders(PREFERRED, None)) == [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    assert leaders(cluster) == [2, 3]
    check_agreement(cluster, {1, 2, 3})


async def test_any_replica_leads_a_partition_without_a_leader_if_one_is_asked_for() -> None:
    cluster = await cluster_with([2, 3], [3, 2])
    await cluster.kill(2)
    await cluster.kill(3)
    assert [state.leader for state in cluster.brokers[1].metadata.values()] == [-1, -1]
    await cluster.start(2)
    elected = await cluster.active.elect_leaders(UNCLEAN, [FIRST])
    assert codes(elected) == [("t", 0, ErrorCode.NONE)]
    assert codes(await cluster.active.elect_leaders(UNCLEAN, None)) == [
        ("t", 0, ErrorCode.ELECTION_NOT_NEEDED),
        ("t", 1, ErrorCode.NONE),
    ]
    state = cluster.brokers[1].metadata[FIRST]
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)


async def test_nobody_is_elected_where_nobody_lives() -> None:
    cluster = await cluster_with([2])
    await cluster.kill(2)
    for kind, code in (
        (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        (result,) = await cluster.active.elect_leaders(kind, [FIRST])
        assert result.error is code


async def test_every_mention_has_its_result() -> None:
    cluster = await cluster_with([2])
    unknown = [TopicPartition("u", 0), TopicPartition("t", 9)]
    results = await cluster.active.elect_leaders(PREFERRED, [FIRST, *unknown, FIRST])
    assert [(result.error, result.message) for result in results] == [
        (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as u"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
        (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
    ]


async def test_a_state_that_somebody_else_wrote_is_left_alone() -> None:
    cluster = await cluster_with([2, 3])
    await cluster.kill(2)
    await cluster.start(2)
    await rejoin(cluster, 2, FIRST)
    session, path = cluster.store.session(), paths.partition_state("t", 0)
    data, _ = await session.get(path)
    await session.set(path, data)
    (result,) = await cluster.active.elect_leaders(PREFERRED, [FIRST])
    assert result.error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    (again,) = await cluster.active.elect_leaders(PREFERRED, [FIRST])
    assert again.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code", "message"),
    [
        ("t", 0, [2, 3], ErrorCode.NONE, None),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment"),
        ("t", 0, [2, 7], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 7, but no such"),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        ("t", 0, [2, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 2 more than once"),
        ("t", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "cannot move between brokers yet"),
        ("t", 0, [2], ErrorCode.INVALID_REPLICATION_FACTOR, "changed from 2 to 1"),
        ("t", 5, [2], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:5."),
        ("u", 0, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named u."),
    ],
)
async def test_reassignments_are_checked(
    topic: str, partition: int, replicas: list[int] | None, code: ErrorCode, message: str | None
) -> None:
    cluster = await cluster_with([2, 3])
    target = NewReplicas(topic=topic, partition=partition, replicas=replicas)
    (result,) = await cluster.active.alter_reassignments(
        [target], allow_replication_factor_change=False
    )
    assert (result.topic, result.partition, result.error) == (topic, partition, code)
    assert result.message is None if message is None else message in (result.message or "")
    assert await cluster.active.ongoing_reassignments(None) == []


async def test_a_move_that_an_earlier_controller_began_is_told() -> None:
    cluster = await cluster_with([2], [3])
    session = cluster.store.session()
    data, _ = await session.get(paths.topic("t"))
    stored = znodes.decode_topic("t", data)
    moving = znodes.TopicNode({0: (2, 3), 1: (3,)}, stored.topic_id, {0: (3,)}, {0: (2,)})
    await session.set(paths.topic("t"), znodes.encode_topic(moving))
    await cluster.kill(1)
    (ongoing,) = await cluster.active.ongoing_reassignments(None)
    assert (ongoing.topic, ongoing.partition, ongoing.replicas) == ("t", 0, (2, 3))
    assert (ongoing.adding, ongoing.removing) == ((3,), (2,))
    assert await cluster.active.ongoing_reassignments([FIRST, SECOND]) == [ongoing]
    assert await cluster.active.ongoing_reassignments([SECOND]) == []
    cancelled = NewReplicas(topic="t", partition=0, replicas=None)
    (result,) = await cluster.active.alter_reassignments([cancelled])
    assert result.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_preferred_leaders_lead_again_when_they_are_back_in_sync() -> None:
    cluster = Cluster()
    for broker in (1, 2):
        await cluster.start(broker)
    await cluster.active.create_topics(
        [NewTopic(name="a", assignments=[(number, [2, 1]) for number in range(3)])]
    )
    await cluster.kill(2)
    await cluster.start(2)

    async def due() -> list[int]:
        cluster.clock.advance(300)
        await cluster.settle()
        return [state.leader for state in cluster.brokers[1].metadata.values()]

    assert await due() == [1, 1, 1], "nothing is in sync there"
    for number in range(3):
        state = cluster.brokers[1].metadata["a", number]
        await cluster.alter_isr(state, 1, 2)
    assert await due() == [2, 2, 2]
    state = cluster.brokers[1].metadata["a", 0]
    assert await due() == [2, 2, 2]
    assert cluster.brokers[1].metadata["a", 0] == state, "and nothing more"


def test_a_few_leaders_elsewhere_are_left_there() -> None:
    def state(number: int, leader: int) -> LeaderAndIsr:
        return LeaderAndIsr("t", UUID(int=1), number, leader, 0, (1, 2), (1, 2), 0, 1)

    states = [state(number, 2 if number == 0 else 1) for number in range(10)]
    assert unbalanced(states, 10) == []
    assert unbalanced(states, 9) == states[:1]
    assert unbalanced([], 0) == []

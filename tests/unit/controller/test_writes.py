"""Decisions in the store: batches that an ensemble takes, and what becomes of half of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.unit.controller.harness import Cluster

from moldau.controller import LeaderAndIsr, NewPartitions, NewTopic, TopicReference
from moldau.controller.context import ControllerContext
from moldau.controller.create_topics import TopicPlan
from moldau.controller.writes import LARGEST_BATCH, PARTITIONS_PER_BATCH, create_topic, size_of
from moldau.coordination import paths
from moldau.coordination.errors import StoreUnavailableError
from moldau.coordination.store import Op, OpResult
from moldau.errors import ErrorCode, KafkaError

LONGEST = "x" * 249
TOPIC_ID = UUID(int=1)


@pytest.mark.parametrize("name", ["t", LONGEST])
@pytest.mark.parametrize("replicas", [(1,), (1_000_001, 1_000_002, 1_000_003, 1_000_004)])
def test_no_batch_is_too_large_for_an_ensemble(name: str, replicas: tuple[int, ...]) -> None:
    count = 10_000
    states = [
        LeaderAndIsr(
            *(name, TOPIC_ID, number, replicas[0], 0, replicas, replicas, 0, 1),
            broker_epochs=tuple([1 << 40] * len(replicas)),
        )
        for number in range(count)
    ]
    plan = TopicPlan(name, TOPIC_ID, dict.fromkeys(range(count), replicas), {})
    batches = create_topic(ControllerContext(), plan, states)
    assert [state for batch in batches for state in batch.states] == states
    assert all(size_of(batch.ops) <= LARGEST_BATCH for batch in batches)
    assert all(len(batch.states) <= PARTITIONS_PER_BATCH for batch in batches)
    assert paths.topic(name) in [op.path for op in batches[0].ops]
    made = [op.path for batch in batches for op in batch.ops if op.path != paths.CONTROLLER_EPOCH]
    assert len(set(made)) == len(made) == 3 + 2 * count


class Refusals:
    """A store that refuses every batch but the first, if it is told to."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.are_on = False
        self.takes_rest = True
        """Whether it takes that alone which it has refused."""
        session = cluster.sessions[1]
        multi_many = session.multi_many

        async def some(batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
            first = 1 if self.takes_rest or len(batches) > 1 else 0
            taken = batches[:first] if self.are_on else batches
            done = await multi_many(taken)
            return [*done, *[StoreUnavailableError("full") for _ in batches[len(taken) :]]]

        monkeypatch.setattr(session, "multi_many", some)


@pytest.fixture
async def cluster() -> Cluster:
    cluster = Cluster()
    for broker in (1, 2):
        await cluster.start(broker)
    return cluster


@pytest.fixture
def refusals(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(cluster, monkeypatch)


async def catch_up(cluster: Cluster) -> None:
    cluster.clock.advance(20)
    await cluster.settle()


def led(cluster: Cluster) -> int:
    """How many partitions have a leader, as the second broker knows it."""
    return sum(state.leader in (1, 2) for state in cluster.brokers[2].metadata.values())


TOPIC = NewTopic(name="t", num_partitions=1500, replication_factor=2)


async def test_a_topic_that_was_half_written_is_completed(
    cluster: Cluster, refusals: Refusals
) -> None:
    refusals.are_on = True
    with pytest.raises(KafkaError) as caught:
        await cluster.active.create_topics([TOPIC])
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (again,) = await cluster.active.create_topics([TOPIC])
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS
    refusals.are_on = False
    await catch_up(cluster)
    assert led(cluster) == 1500
    (grown,) = await cluster.active.create_partitions([NewPartitions(topic="t", count=1501)])
    assert grown.error is ErrorCode.NONE


async def test_failed_requests_do_not_add_up_while_the_store_takes_nothing(
    cluster: Cluster, refusals: Refusals
) -> None:
    """What is missing is tried again by one, whoever was refused."""
    refusals.are_on = True
    refusals.takes_rest = False
    waiting = []
    for number in range(3):
        with pytest.raises(KafkaError):
            await cluster.active.create_topics(
                [NewTopic(name=f"t{number}", num_partitions=1001, replication_factor=2)]
            )
        await cluster.settle()
        waiting.append(cluster.clock.pending)
    assert waiting == waiting[:1] * 3
    refusals.are_on = False
    await catch_up(cluster)
    assert led(cluster) == 3003


async def test_partitions_that_were_half_written_are_completed(
    cluster: Cluster, refusals: Refusals
) -> None:
    await cluster.active.create_topics([TOPIC])
    refusals.are_on = True
    with pytest.raises(KafkaError) as caught:
        await cluster.active.create_partitions([NewPartitions(topic="t", count=3000)])
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    refusals.are_on = False
    await catch_up(cluster)
    assert led(cluster) == 3000
    (grown,) = await cluster.active.create_partitions([NewPartitions(topic="t", count=3001)])
    assert grown.error is ErrorCode.NONE
    assert led(cluster) == 3001


async def test_a_topic_that_was_half_deleted_goes(cluster: Cluster, refusals: Refusals) -> None:
    await cluster.active.create_topics([TOPIC])
    refusals.are_on = True
    await cluster.active.delete_topics([TopicReference("t")])
    session = cluster.store.session()
    assert await session.children("/brokers/topics") == ["t"]
    refusals.are_on = False
    await catch_up(cluster)
    assert await session.children("/brokers/topics") == []
    assert await session.children("/admin/delete_topics") == []


async def test_a_topic_that_no_node_can_hold_is_refused(cluster: Cluster) -> None:
    large = {"confluent.placement.constraints": "x" * LARGEST_BATCH}
    refused, made = await cluster.active.create_topics(
        [NewTopic(name="large", configs=large), NewTopic(name="small")]
    )
    assert refused.error is ErrorCode.POLICY_VIOLATION
    assert "large" in str(refused.message)
    assert made.error is ErrorCode.NONE
    assert await cluster.store.session().children("/brokers/topics") == ["small"]

"""Brokers that are dead, paused or deaf: nobody else waits for them, and in the end they know."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.controller.harness import Cluster, set_configs
from tests.unit.controller.test_controller_cluster import check_agreement, three_brokers

from moldau.config.types import ResourceType
from moldau.controller import NewPartitions, NewTopic, TopicReference
from moldau.controller.outbox import PARTITIONS_PER_UPDATE
from moldau.coordination import paths
from moldau.errors import ErrorCode, KafkaError


@pytest.fixture
async def cluster() -> Cluster:
    return await three_brokers()


async def some_turns() -> None:
    """Whatever needs no time to pass has happened."""
    for _ in range(50):
        await asyncio.sleep(0)


def topic(name: str, factor: int = 3) -> NewTopic:
    return NewTopic(name=name, num_partitions=3, replication_factor=factor)


async def test_a_paused_broker_holds_up_nobody_and_who_asked_for_a_second_only(
    cluster: Cluster,
) -> None:
    cluster.brokers[3].running.clear()
    request = asyncio.create_task(cluster.active.create_topics([topic("a")]))
    await some_turns()
    assert len(cluster.brokers[1].replicas) == len(cluster.brokers[2].replicas) == 3
    assert not request.done()
    cluster.clock.advance(1.0)
    (result,) = await request
    assert result.error is ErrorCode.NONE


async def test_once_it_was_waited_for_in_vain_nobody_waits_again(cluster: Cluster) -> None:
    cluster.brokers[3].running.clear()
    request = asyncio.create_task(cluster.active.create_topics([topic("a")]))
    await some_turns()
    cluster.clock.advance(1.0)
    await request
    # Without any time passing:
    await cluster.active.create_topics([topic("b")])
    await cluster.active.create_partitions([NewPartitions(topic="b", count=6)])
    await set_configs(cluster.active, ResourceType.TOPIC, "a", {"retention.ms": "5"})
    await cluster.active.delete_topics([TopicReference("b")])
    result = await cluster.alter_isr(cluster.brokers[1].metadata["a", 0], 1, 2, 3)
    assert result.error is ErrorCode.NONE
    assert cluster.brokers[2].topic_configs["a"] == {"retention.ms": "5"}
    assert {name for name, _ in cluster.brokers[2].metadata} == {"a"}

    cluster.brokers[3].running.set()
    await cluster.settle()
    check_agreement(cluster, {1, 2, 3})
    assert await cluster.store.session().children("/brokers/topics") == ["a"]


async def test_leaders_are_replaced_while_a_broker_is_paused(cluster: Cluster) -> None:
    await cluster.active.create_topics([topic("a")])
    cluster.brokers[3].running.clear()
    cluster.brokers[2].reachable = False
    await cluster.expire(2)
    await some_turns()
    states = cluster.brokers[1].metadata.values()
    assert {state.leader for state in states} == {1, 3}
    assert all(2 not in state.isr for state in states)
    del cluster.controllers[2]
    cluster.brokers[3].running.set()
    await cluster.settle()
    check_agreement(cluster, {1, 3})


async def test_a_broker_that_cannot_be_reached_is_not_waited_for(cluster: Cluster) -> None:
    cluster.brokers[3].reachable = False
    (result,) = await cluster.active.create_topics([topic("a")])
    assert result.error is ErrorCode.NONE
    assert len(cluster.brokers[2].replicas) == 3
    assert cluster.brokers[3].metadata == {}


async def test_a_broker_that_can_be_reached_again_is_told_everything(cluster: Cluster) -> None:
    await cluster.active.create_topics([topic("gone")])
    cluster.brokers[3].reachable = False
    await cluster.active.create_topics([topic("a"), topic("b")])
    await cluster.active.delete_topics([TopicReference("gone")])
    cluster.clock.advance(30)
    await cluster.settle()
    assert await cluster.store.session().children(paths.DELETE_TOPICS) == ["gone"]
    cluster.brokers[3].reachable = True
    heard = len(cluster.brokers[3].updates)
    cluster.clock.advance(1.2)
    await cluster.settle()
    check_agreement(cluster, {1, 2, 3})
    first = cluster.brokers[3].updates[heard]
    assert first.metadata.full
    assert [stop.topic for stop in first.stop_replicas] == ["gone"] * 3
    assert sorted(cluster.brokers[3].deleted) == [("gone", 0), ("gone", 1), ("gone", 2)]
    assert await cluster.store.session().children(paths.DELETE_TOPICS) == []
    assert await cluster.store.session().children("/brokers/topics") == ["a", "b"]


async def test_an_answer_that_is_lost_changes_nothing_in_the_end(cluster: Cluster) -> None:
    cluster.deaf.add(3)
    await cluster.active.create_topics([topic("a")])
    assert len(cluster.brokers[3].replicas) == 3, "it has applied it"
    await cluster.active.delete_topics([TopicReference("a")])
    assert await cluster.store.session().children(paths.DELETE_TOPICS) == ["a"]
    (again,) = await cluster.active.create_topics([topic("a")])
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS, "somebody may still have the old one"
    cluster.deaf.clear()
    cluster.clock.advance(1.2)
    await cluster.settle()
    assert await cluster.store.session().children(paths.DELETE_TOPICS) == []
    (again,) = await cluster.active.create_topics([topic("a")])
    assert again.error is ErrorCode.NONE
    check_agreement(cluster, {1, 2, 3})


async def test_one_message_is_on_its_way_at_a_time_and_changes_wait_together(
    cluster: Cluster,
) -> None:
    broker = cluster.brokers[3]
    broker.running.clear()
    heard = len(broker.updates)
    requests = [
        asyncio.create_task(cluster.active.create_topics([topic(f"t{number}")]))
        for number in range(5)
    ]
    await some_turns()
    cluster.clock.advance(1.0)
    await asyncio.gather(*requests)
    broker.running.set()
    await cluster.settle()
    assert len(broker.updates) == heard + 2
    check_agreement(cluster, {1, 2, 3})


async def test_a_controller_that_a_broker_does_not_obey_any_more_resigns(cluster: Cluster) -> None:
    cluster.brokers[2].fence.controller_epoch = 3
    await cluster.active.create_topics([topic("a")])
    await cluster.settle()
    assert cluster.active.epoch == 3, "one that it obeys"
    check_agreement(cluster, {1, 2, 3})


async def test_messages_to_a_registration_end_with_it(cluster: Cluster) -> None:
    cluster.brokers[3].running.clear()
    request = asyncio.create_task(cluster.active.create_topics([topic("a")]))
    await some_turns()
    await cluster.kill(3)
    assert request.done(), "nobody waits for a broker that is gone"
    del cluster.controllers[3]
    cluster.brokers[3].running.set()
    await cluster.settle()
    assert cluster.brokers[3].replicas == {}
    with pytest.raises(KafkaError):
        await cluster.controllers[2].create_topics([topic("b")])


async def test_the_controllers_own_broker_may_take_its_time(cluster: Cluster) -> None:
    """It cannot be dead, and has many logs to make perhaps."""
    cluster.brokers[1].running.clear()
    request = asyncio.create_task(cluster.active.create_topics([topic("a")]))
    for _ in range(5):
        await some_turns()
        cluster.clock.advance(1.0)
    assert not request.done()
    cluster.brokers[1].running.set()
    (result,) = await request
    assert result.error is ErrorCode.NONE


async def test_a_broker_that_answers_now_and_then_is_waited_for(cluster: Cluster) -> None:
    cluster.brokers[3].delay_s = 0.7
    topics = [
        NewTopic(name=f"t{number}", num_partitions=PARTITIONS_PER_UPDATE, replication_factor=3)
        for number in range(3)
    ]
    request = asyncio.create_task(cluster.active.create_topics(topics))
    for passed in range(4):
        await some_turns()
        assert request.done() == (passed == 3)
        cluster.clock.advance(0.7)
    await request
    assert len(cluster.brokers[3].replicas) == 3 * PARTITIONS_PER_UPDATE


async def test_an_order_to_delete_is_given_once_to_each_life_of_a_broker(cluster: Cluster) -> None:
    await cluster.active.create_topics([topic("a")])
    cluster.brokers[3].running.clear()
    request = asyncio.create_task(cluster.active.delete_topics([TopicReference("a")]))
    await some_turns()
    cluster.clock.advance(1.0)
    await request
    await cluster.store.session().create(paths.delete_topic("unknown"))  # somebody looks again
    await some_turns()
    cluster.brokers[3].running.set()
    await cluster.settle()
    for broker in cluster.brokers.values():
        stops = [stop for update in broker.updates for stop in update.stop_replicas]
        assert len(stops) == 3
    assert await cluster.store.session().children("/brokers/topics") == []

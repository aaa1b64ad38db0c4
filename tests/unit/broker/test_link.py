"""The controller's word, obeyed: what the parts of a broker hear of an update, in which order."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch
from tests.unit.broker.harness import ELSEWHERE, HERE, TOPIC_ID, Link, led

from moldau.broker.group_coordinator import OFFSETS_TOPIC
from moldau.controller import (
    MetadataUpdate,
    RemovedTopic,
    ReplicaError,
    StopReplica,
)
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode, KafkaError
from moldau.outcome import Outcome


@pytest.fixture
def link(broker: MemoryBroker) -> Link:
    return Link(broker)


async def test_a_partition_is_served_and_described(broker: MemoryBroker, link: Link) -> None:
    assert await link.update(led(), led("t", 1, leader=ELSEWHERE)) == []
    assert broker.partition("t").is_leader
    assert not broker.partition("t", 1).is_leader
    topic = link.parts.metadata.topics["t"]
    assert {index: state.leader for index, state in topic.partitions.items()} == {0: 1, 1: 2}
    assert link.parts.metadata.controller_id == ELSEWHERE


async def test_settings_come_before_the_logs_that_they_are_for(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led(), topic_configs={"t": {"retention.ms": "7"}})
    assert broker.partition("t").log.config.retention_ms == 7
    await link.update(topic_configs={"t": {"retention.ms": "8"}}, metadata=MetadataUpdate())
    assert broker.partition("t").log.config.retention_ms == 8
    await link.update(
        broker_configs={"": {"log.retention.ms": "9"}},
        topic_configs={"t": {}},
        metadata=MetadataUpdate(),
    )
    assert broker.partition("t").log.config.retention_ms == 9


async def test_a_stopped_replica_is_not_served_and_a_deleted_one_has_no_log(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led(), led("t", 1))
    stops = [StopReplica("t", TOPIC_ID, 0, False, 0), StopReplica("t", TOPIC_ID, 1, True, 0)]
    await link.update(stop_replicas=stops, metadata=MetadataUpdate())
    for index in (0, 1):
        with pytest.raises(KafkaError) as caught:
            broker.partition("t", index)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.disk.is_dir("/data/t-0")
    assert not broker.disk.is_dir("/data/t-1")


async def test_replicas_that_cannot_be_brought_up_are_reported(
    broker: MemoryBroker, link: Link
) -> None:
    link.parts.logs.fail_dir("/data", "on fire")
    errors = await link.update(led())
    assert errors == [ReplicaError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_a_controller_that_was_replaced_is_not_obeyed(link: Link) -> None:
    await link.update(led())
    with pytest.raises(KafkaError) as caught:
        await link.update(led("u"), controller_epoch=4)
    assert caught.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert list(link.parts.metadata.topics) == ["t"]


async def test_a_full_update_is_all_there_is(link: Link) -> None:
    registration = BrokerRegistration(HERE, (Endpoint("PLAINTEXT", "memory", 9092),), None)
    groups, metrics = {"g": {"share.session.timeout.ms": "45000"}}, {"m": {"metrics": "*"}}
    await link.update(led(), led("u"), group_configs=groups, client_metrics_configs=metrics)
    assert link.parts.configs.client_metrics == metrics
    states = (led("u"),)
    metadata = MetadataUpdate(brokers=(registration,), partitions=states, full=True, full_ends=True)
    await link.update(*states, metadata=metadata)
    assert list(link.parts.metadata.topics) == ["u"]
    assert list(link.parts.metadata.brokers) == [HERE]
    assert list(link.parts.configs.configured_groups) == []
    assert link.parts.configs.client_metrics == {}


async def test_groups_hear_of_topics_in_the_order_of_the_update(
    broker: MemoryBroker, link: Link, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.parts.groups.topic.create()
    await client.create_topic("before")
    heard: list[tuple[str, list[object]]] = []
    host = next(iter(link.parts.groups.hosts))

    def note(what: str) -> object:
        def on_change(topics: list[object], _now_ms: int) -> Outcome:
            heard.append((what, list(topics)))
            return Outcome()

        return on_change

    monkeypatch.setattr(host.shard, "on_topics_changed", note("changed"))
    monkeypatch.setattr(host.shard, "on_topics_removed", note("removed"))
    names = [f"topic-{number}" for number in (3, 1, 2, 9, 5)]
    await link.update(*(led(name, topic_id=UUID(int=n)) for n, name in enumerate(names, 50)))
    assert heard == [("changed", names)]
    heard.clear()
    again = led(names[0], topic_id=UUID(int=60))
    removed = [RemovedTopic(names[1], UUID(int=51))]
    await link.update(again, metadata=MetadataUpdate(partitions=(again,), removed_topics=removed))
    lost = [(names[0], UUID(int=50)), (names[1], UUID(int=51))]
    assert heard == [("removed", lost), ("changed", [names[0], names[1]])]
    heard.clear()
    await link.update(led(names[2], epoch=1, topic_id=UUID(int=52)))
    assert heard == [], "another leader is no other topic"


async def test_coordinators_follow_the_leaders_of_their_topic(
    broker: MemoryBroker, link: Link, client: WireClient
) -> None:
    groups = link.parts.groups
    states = [led(OFFSETS_TOPIC, index) for index in range(3)]
    await link.update(*states)
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [0, 1, 2]
    await link.update(led(OFFSETS_TOPIC, 1, leader=ELSEWHERE, epoch=1))
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [0, 2]
    stop = StopReplica(OFFSETS_TOPIC, TOPIC_ID, 0, False, 0)
    await link.update(stop_replicas=[stop], metadata=MetadataUpdate())
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [2]


async def test_a_fetch_that_waits_hears_that_its_leader_moved(
    broker: MemoryBroker, link: Link, client: WireClient
) -> None:
    await link.update(led())
    assert (await client.produce("t", one_batch(b"v"), acks=1)).error_code == 0
    sent = client.send_fetch({"t": {0: 1}}, max_wait_ms=60_000)
    await broker.settle()
    await link.update(led(leader=ELSEWHERE, epoch=1))
    ((_, _, (partition,)),) = (await client.receive_fetch(sent)).topics
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

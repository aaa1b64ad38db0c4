"""One broker with its controller: requests, what they leave in the store, what the broker hears."""

from __future__ import annotations

import asyncio
import errno
import json
from uuid import UUID

import pytest
from tests.unit.controller.harness import Cluster, set_configs

from moldau.config.types import ResourceType
from moldau.controller import (
    AlterPartition,
    Controller,
    LeaderAndIsr,
    NewPartitions,
    NewTopic,
    ProducerIdBlock,
    TopicReference,
)
from moldau.coordination import paths
from moldau.coordination.store import Create, SetData
from moldau.errors import ErrorCode, KafkaError


@pytest.fixture
async def cluster() -> Cluster:
    cluster = Cluster()
    await cluster.start(1)
    return cluster


@pytest.fixture
def controller(cluster: Cluster) -> Controller:
    return cluster.controllers[1]


async def node(cluster: Cluster, path: str) -> object:
    data, _ = await cluster.store.session().get(path)
    return json.loads(data)


async def test_the_broker_is_registered_as_kafka_does_it(cluster: Cluster) -> None:
    data, stat = await cluster.store.session().get("/brokers/ids/1")
    registered = json.loads(data)
    assert registered.pop("timestamp").isdigit()
    assert registered == {
        "version": 5,
        "host": "host1",
        "port": 9092,
        "endpoints": ["PLAINTEXT://host1:9092"],
        "jmx_port": -1,
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
    }
    assert stat.ephemeral_owner == cluster.sessions[1].session_id
    assert cluster.controllers[1].broker_epoch == stat.czxid


async def test_the_only_broker_is_in_charge(cluster: Cluster, controller: Controller) -> None:
    assert controller.is_active
    assert controller.controller_id == 1
    assert controller.epoch == 1
    in_charge = await node(cluster, "/controller")
    assert isinstance(in_charge, dict)
    assert (in_charge["version"], in_charge["brokerid"]) == (2, 1)
    assert await node(cluster, "/controller_epoch") == 1
    assert cluster.brokers[1].brokers == [1]
    assert cluster.brokers[1].updates[0].metadata.full


async def test_creating_a_topic_writes_kafkas_nodes_and_makes_the_broker_lead(
    cluster: Cluster, controller: Controller
) -> None:
    (result,) = await controller.create_topics(
        [NewTopic(name="orders", num_partitions=2, configs={"retention.ms": "1000"})]
    )
    assert (result.error, result.message) == (ErrorCode.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.topic_id == UUID(int=1)
    assert result.configs == {"retention.ms": "1000"}
    assert await node(cluster, "/brokers/topics/orders") == {
        "version": 3,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partitions": {"0": [1], "1": [1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert await node(cluster, "/brokers/topics/orders/partitions/1/state") == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1],
    }
    assert await node(cluster, "/config/topics/orders") == {
        "version": 1,
        "config": {"retention.ms": "1000"},
    }
    broker = cluster.brokers[1]
    assert len(broker.updates) == 2, "one message for all partitions"
    assert set(broker.replicas) == set(broker.metadata) == {("orders", 0), ("orders", 1)}
    assert broker.topic_configs == {"orders": {"retention.ms": "1000"}}
    state = broker.replicas["orders", 0]
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1,))
    assert all(state.is_new for state in broker.updates[-1].metadata.partitions)


async def test_validating_only_writes_and_says_nothing(
    cluster: Cluster, controller: Controller
) -> None:
    before = cluster.store.zxid
    good, bad = await controller.create_topics(
        [NewTopic(name="a", num_partitions=3), NewTopic(name="b", num_partitions=0)],
        validate_only=True,
    )
    assert (good.error, good.num_partitions) == (ErrorCode.NONE, 3)
    assert bad.error is ErrorCode.INVALID_PARTITIONS
    assert cluster.store.zxid == before
    assert len(cluster.brokers[1].updates) == 1


async def test_one_bad_topic_does_not_keep_the_others_from_being_made(
    cluster: Cluster, controller: Controller
) -> None:
    results = await controller.create_topics(
        [
            NewTopic(name="a"),
            NewTopic(name="twice"),
            NewTopic(name="b/ad"),
            NewTopic(name="twice"),
            NewTopic(name="c"),
        ]
    )
    assert {result.name: result.error for result in results} == {
        "a": ErrorCode.NONE,
        "twice": ErrorCode.INVALID_REQUEST,
        "b/ad": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "c": ErrorCode.NONE,
    }
    assert len(results) == 4
    assert set(cluster.brokers[1].metadata) == {("a", 0), ("c", 0)}


async def test_a_topic_that_the_store_has_already_is_refused(
    cluster: Cluster, controller: Controller
) -> None:
    session = cluster.store.session()
    await session.multi([Create("/brokers/topics/ghost")])
    (result,) = await controller.create_topics([NewTopic(name="ghost")])
    assert result.error is ErrorCode.TOPIC_ALREADY_EXISTS
    (again,) = await controller.create_topics([NewTopic(name="other")])
    assert again.error is ErrorCode.NONE


async def test_auto_creation_uses_the_defaults(cluster: Cluster, controller: Controller) -> None:
    cluster.settings.num_partitions = 3
    first, second = await controller.auto_create(["a", "b", "a"])
    assert (first.name, first.num_partitions) == ("a", 3)
    assert second.name == "b"
    (again,) = await controller.auto_create(["a"])
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_ten_thousand_partitions_are_created_in_few_syncs_and_one_message(
    cluster: Cluster, controller: Controller
) -> None:
    syncs = cluster.disk.appends
    (result,) = await controller.create_topics([NewTopic(name="big", num_partitions=10_000)])
    assert result.error is ErrorCode.NONE
    assert cluster.disk.appends - syncs == 1
    assert len(cluster.brokers[1].updates) == 2
    after = await cluster.crash()
    await after.start(1)
    assert len(after.brokers[1].replicas) == 10_000
    assert len(after.brokers[1].updates) == 1
    assert after.brokers[1].replicas["big", 9_999].leader_epoch == 1


# Restarts


async def test_a_restart_keeps_topics_ids_settings_and_raises_the_leader_epoch(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics(
        [NewTopic(name="a", num_partitions=2, configs={"retention.ms": "5"})]
    )
    await set_configs(controller, ResourceType.BROKER, "1", {"x": "y"})
    for crash in range(1, 4):
        cluster = await cluster.crash()
        restarted = await cluster.start(1)
        assert restarted.epoch == 1 + crash
        broker = cluster.brokers[1]
        assert set(broker.replicas) == {("a", 0), ("a", 1)}
        state = broker.replicas["a", 1]
        assert state.topic_id == UUID(int=1)
        assert (state.leader, state.leader_epoch, state.isr) == (1, crash, (1,))
        assert state.controller_epoch == restarted.epoch
        assert not state.is_new
        assert broker.topic_configs == {"a": {"retention.ms": "5"}}
        assert broker.broker_configs == {"1": {"x": "y"}}


async def test_a_creation_broken_off_half_way_is_completed_by_the_next_controller(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a", num_partitions=3)])
    session = cluster.store.session()
    for path in ("/brokers/topics/a/partitions/2/state", "/brokers/topics/a/partitions/2"):
        await session.delete(path)
    after = await cluster.crash()
    await after.start(1)
    states = after.brokers[1].replicas
    assert {key: state.leader_epoch for key, state in states.items()} == {
        ("a", 0): 1,
        ("a", 1): 1,
        ("a", 2): 0,
    }


async def test_a_clean_stop_frees_the_office_and_the_registration(cluster: Cluster) -> None:
    await cluster.stop(1)
    session = cluster.store.session()
    assert await session.exists("/controller") is None
    assert await session.children("/brokers/ids") == []


async def test_a_second_broker_of_the_same_id_is_refused(cluster: Cluster) -> None:
    cluster.settings.session_timeout_ms = 1
    with pytest.raises(KafkaError) as caught:
        await cluster.start(1)
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


# Partitions


async def test_partitions_are_added(cluster: Cluster, controller: Controller) -> None:
    await controller.create_topics([NewTopic(name="a")])
    (result,) = await controller.create_partitions([NewPartitions(topic="a", count=3)])
    assert result.error is ErrorCode.NONE
    assert set(cluster.brokers[1].replicas) == {("a", 0), ("a", 1), ("a", 2)}
    topic = await node(cluster, "/brokers/topics/a")
    assert isinstance(topic, dict)
    assert topic["partitions"] == {"0": [1], "1": [1], "2": [1]}
    (more,) = await controller.create_partitions([NewPartitions(topic="a", count=4)])
    assert more.error is ErrorCode.NONE
    after = await cluster.crash()
    await after.start(1)
    assert len(after.brokers[1].replicas) == 4


async def test_adding_partitions_is_checked_and_can_be_tried_out(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    results = await controller.create_partitions(
        [
            NewPartitions(topic="a", count=2),
            NewPartitions(topic="nope", count=2),
            NewPartitions(topic="twice", count=2),
            NewPartitions(topic="twice", count=2),
        ],
        validate_only=True,
    )
    assert {result.name: result.error for result in results} == {
        "a": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert set(cluster.brokers[1].replicas) == {("a", 0)}


# Deletion


async def test_deleting_a_topic_removes_it_everywhere(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a", num_partitions=2), NewTopic(name="b")])
    (result,) = await controller.delete_topics([TopicReference("a")])
    assert (result.name, result.topic_id, result.error) == ("a", UUID(int=1), ErrorCode.NONE)
    broker = cluster.brokers[1]
    assert sorted(broker.deleted) == [("a", 0), ("a", 1)]
    assert set(broker.metadata) == {("b", 0)}
    session = cluster.store.session()
    assert await session.children("/brokers/topics") == ["b"]
    assert await session.children("/config/topics") == ["b"]
    assert await session.children("/admin/delete_topics") == []
    (again,) = await controller.create_topics([NewTopic(name="a")])
    assert again.error is ErrorCode.NONE
    assert again.topic_id != UUID(int=1)


async def test_topics_are_deleted_by_id(cluster: Cluster, controller: Controller) -> None:
    await controller.create_topics([NewTopic(name="a")])
    (result,) = await controller.delete_topics([TopicReference(topic_id=UUID(int=1))])
    assert (result.name, result.error) == ("a", ErrorCode.NONE)
    assert cluster.brokers[1].deleted == [("a", 0)]


async def test_deletions_that_are_refused(cluster: Cluster, controller: Controller) -> None:
    await controller.create_topics([NewTopic(name="a"), NewTopic(name="b")])
    names, ids = ["nope", "a", "a", "b"], [UUID(int=77), UUID(int=2), UUID(int=0)]
    results = await controller.delete_topics(
        [*map(TopicReference, names), *(TopicReference(topic_id=topic_id) for topic_id in ids)]
    )
    found = {(one.name, one.topic_id.int): (one.error, one.message) for one in results}
    assert found["nope", 0][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found[None, 77][0] is ErrorCode.UNKNOWN_TOPIC_ID
    assert found["a", 0] == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert found["b", 0][0] is ErrorCode.INVALID_REQUEST
    assert "already supplied" in str(found["b", 0][1])
    assert found[None, 0][0] is ErrorCode.INVALID_REQUEST
    assert found["b", 2][0] is ErrorCode.NONE
    assert cluster.brokers[1].deleted == [("b", 0)]


async def test_deletion_can_be_switched_off(cluster: Cluster, controller: Controller) -> None:
    await controller.create_topics([NewTopic(name="a")])
    cluster.settings.delete_topic_enable = False
    with pytest.raises(KafkaError) as caught:
        await controller.delete_topics([TopicReference("a")])
    assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED
    await cluster.store.session().create(paths.delete_topic("a"))
    await cluster.settle()
    assert cluster.brokers[1].deleted == []
    assert await cluster.store.session().children("/admin/delete_topics") == []


async def test_a_deletion_asked_for_through_the_store_is_carried_out(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    session = cluster.store.session()
    await session.create(paths.delete_topic("a"))
    await session.create(paths.delete_topic("unknown"))
    await cluster.settle()
    assert cluster.brokers[1].deleted == [("a", 0)]
    assert await session.children("/admin/delete_topics") == []


async def test_a_deletion_broken_off_by_a_crash_is_finished_at_the_next_start(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a"), NewTopic(name="b")])
    cluster.brokers[1].reachable = False
    await controller.delete_topics([TopicReference("a")])
    assert await cluster.store.session().children("/admin/delete_topics") == ["a"]
    after = await cluster.crash()
    await after.start(1)
    assert after.brokers[1].deleted == [("a", 0)]
    assert set(after.brokers[1].metadata) == {("b", 0)}
    assert await after.store.session().children("/brokers/topics") == ["b"]
    assert await after.store.session().children("/admin/delete_topics") == []


async def test_a_topic_whose_replica_cannot_be_deleted_is_gone_for_clients_but_not_forgotten(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    cluster.brokers[1].failing.add(("a", 0))
    (result,) = await controller.delete_topics([TopicReference("a")])
    assert result.error is ErrorCode.NONE
    assert cluster.brokers[1].metadata == {}
    (again,) = await controller.create_topics([NewTopic(name="a")])
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS
    (unknown,) = await controller.delete_topics([TopicReference("a")])
    assert unknown.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_ten_thousand_partitions_are_deleted(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="big", num_partitions=10_000)])
    await controller.delete_topics([TopicReference("big")])
    assert len(cluster.brokers[1].deleted) == 10_000
    assert await cluster.store.session().children("/brokers/topics") == []


# Settings


async def test_topic_settings_are_replaced_and_announced(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a", configs={"retention.ms": "5"})])
    await set_configs(controller, ResourceType.TOPIC, "a", {"segment.bytes": "1000"})
    assert cluster.brokers[1].topic_configs == {"a": {"segment.bytes": "1000"}}
    assert await node(cluster, "/config/topics/a") == {
        "version": 1,
        "config": {"segment.bytes": "1000"},
    }
    await set_configs(controller, ResourceType.TOPIC, "a", {})
    assert cluster.brokers[1].topic_configs == {"a": {}}


async def test_settings_of_unknown_topics_and_bad_settings_are_refused(
    cluster: Cluster, controller: Controller
) -> None:
    def validate(overrides: object) -> None:
        if overrides:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "no")

    await controller.create_topics([NewTopic(name="a")])
    cluster.settings.validate_topic_config = validate
    for name, code in (
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.INVALID_CONFIG),
    ):
        with pytest.raises(KafkaError) as caught:
            await set_configs(controller, ResourceType.TOPIC, name, {"x": "y"})
        assert caught.value.code is code
    assert cluster.brokers[1].topic_configs == {"a": {}}


async def test_settings_of_groups_go_with_the_last_of_them(
    cluster: Cluster, controller: Controller
) -> None:
    await set_configs(controller, ResourceType.GROUP, "a/b", {"x": "1"})
    await set_configs(controller, ResourceType.GROUP, "a/b", {"x": "2"})
    await set_configs(controller, ResourceType.GROUP, "..", {"x": "3"})
    await set_configs(controller, ResourceType.GROUP, "never", {})
    await set_configs(controller, ResourceType.GROUP, "..", {})
    assert cluster.brokers[1].group_configs == {"a/b": {"x": "2"}, "..": {}}
    assert await cluster.store.session().children("/config/groups") == ["a%2Fb"]
    cluster = await cluster.crash()
    await cluster.start(1)
    assert cluster.brokers[1].group_configs == {"a/b": {"x": "2"}}


async def test_subscriptions_to_client_metrics_are_kept(
    cluster: Cluster, controller: Controller
) -> None:
    kind = ResourceType.CLIENT_METRICS
    await set_configs(controller, kind, "a/b", {"metrics": "*"})
    await set_configs(controller, kind, "gone", {"metrics": "*"})
    await set_configs(controller, kind, "gone", {})
    with pytest.raises(KafkaError, match="interval must be between 100 and 3600000"):
        await set_configs(controller, kind, "a/b", {"interval.ms": "99"})
    cluster = await cluster.crash()
    await cluster.start(1)
    assert cluster.brokers[1].client_metrics_configs == {"a/b": {"metrics": "*"}}


async def test_broker_settings_are_kept_per_broker_and_for_all(
    cluster: Cluster, controller: Controller
) -> None:
    await set_configs(controller, ResourceType.BROKER, "", {"log.retention.ms": "1"})
    await set_configs(controller, ResourceType.BROKER, "1", {"log.retention.ms": "2"})
    await set_configs(controller, ResourceType.BROKER, "1", {"log.retention.ms": "3"})
    assert cluster.brokers[1].broker_configs == {
        "": {"log.retention.ms": "1"},
        "1": {"log.retention.ms": "3"},
    }
    assert await cluster.store.session().children("/config/brokers") == ["1", "<default>"]
    for unknown in ("9", "x"):
        with pytest.raises(KafkaError) as caught:
            await set_configs(controller, ResourceType.BROKER, unknown, {})
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


# Producer ids


async def test_producer_ids_are_given_out_in_blocks_that_never_repeat(
    cluster: Cluster, controller: Controller
) -> None:
    assert await controller.next_producer_id_block(1) == ProducerIdBlock(0, 1000)
    assert await controller.next_producer_id_block(7) == ProducerIdBlock(1000, 1000)
    assert await node(cluster, "/latest_producer_id_block") == {
        "version": 1,
        "broker": 7,
        "block_start": "1000",
        "block_end": "1999",
    }
    after = await cluster.crash()
    restarted = await after.start(1)
    assert await restarted.next_producer_id_block(1) == ProducerIdBlock(2000, 1000)


async def test_producer_ids_run_out_instead_of_wrapping_around(
    cluster: Cluster, controller: Controller
) -> None:
    block = json.dumps(
        {"version": 1, "broker": 1, "block_start": "0", "block_end": str(2**63 - 500)}
    )
    await cluster.store.session().set("/latest_producer_id_block", block.encode())
    with pytest.raises(KafkaError, match="exhausted"):
        await controller.next_producer_id_block(1)


# Failing disks


async def test_a_replica_that_cannot_be_brought_up_is_offline(
    cluster: Cluster, controller: Controller
) -> None:
    broker = cluster.brokers[1]
    broker.failing.add(("a", 1))
    await controller.create_topics([NewTopic(name="a")])
    (grown,) = await controller.create_partitions([NewPartitions(topic="a", count=2)])
    assert grown.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.metadata["a", 0].leader == 1
    state = broker.metadata["a", 1]
    assert (state.leader, state.isr, state.offline_replicas) == (-1, (1,), (1,))


async def test_a_topic_that_no_broker_has_room_for_is_not_created(
    cluster: Cluster, controller: Controller
) -> None:
    cluster.settings.delete_topic_enable = False
    broker = cluster.brokers[1]
    await controller.create_topics([NewTopic(name="old")])
    broker.full = True
    (result,) = await controller.create_topics([NewTopic(name="a", num_partitions=2)])
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "partition 0 of topic 'a'" in (result.message or "")
    assert set(broker.metadata) == {("old", 0)}
    session = cluster.store.session()
    assert await session.children("/brokers/topics") == ["old"]
    assert await session.children("/admin/delete_topics") == []
    broker.full = False
    (result,) = await controller.create_topics([NewTopic(name="a", num_partitions=2)])
    assert result.error is ErrorCode.NONE
    assert broker.metadata["a", 1].leader == 1


async def test_nothing_is_written_for_topics_that_there_is_no_room_for(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    asked: list[int] = []

    async def has_room(partitions: int) -> bool:
        asked.append(partitions)
        return False

    cluster.settings.has_room = has_room
    written = cluster.disk.appends
    (created,) = await controller.create_topics([NewTopic(name="b", num_partitions=2)])
    (grown,) = await controller.create_partitions([NewPartitions(topic="a", count=4)])
    assert created.error is grown.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert asked == [2, 3]
    assert cluster.disk.appends == written
    (valid,) = await controller.create_topics([NewTopic(name="b")], validate_only=True)
    assert valid.error is ErrorCode.NONE


async def test_the_name_of_what_is_left_of_a_topic_is_reserved(
    cluster: Cluster, controller: Controller
) -> None:
    cluster.settings.stray_topics = {"a": "there is a-0"}
    results = await controller.create_topics([NewTopic(name="a"), NewTopic(name="b")])
    assert [result.error for result in results] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert results[0].message == "The name of topic 'a' is reserved: there is a-0"


async def test_brokers_are_told_how_often_settings_have_changed(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    for value in ("1", "2"):
        await set_configs(controller, ResourceType.TOPIC, "a", {"retention.ms": value})
    told = [update.topic_config_versions for update in cluster.brokers[1].updates]
    assert [versions for versions in told if versions] == [{"a": 0}, {"a": 1}, {"a": 2}]
    after = await cluster.crash()
    await after.start(1)
    assert after.brokers[1].updates[-1].topic_config_versions == {"a": 2}


async def test_a_lost_disk_takes_its_partitions_offline_and_a_restart_brings_them_back(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a", num_partitions=2)])
    await controller.offline_replicas(1, controller.broker_epoch, [("a", 0), ("nope", 0)])
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch, state.offline_replicas) == (-1, 1, (1,))
    assert cluster.brokers[1].metadata["a", 1].leader == 1
    after = await cluster.crash()
    await after.start(1)
    state = after.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch, state.offline_replicas) == (1, 2, ())


async def test_what_an_earlier_life_says_of_its_disks_comes_too_late(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    with pytest.raises(KafkaError) as caught:
        await controller.offline_replicas(1, controller.broker_epoch - 1, [("a", 0)])
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert cluster.brokers[1].metadata["a", 0].leader == 1
    await controller.offline_replicas(1, controller.broker_epoch, [("a", 0)])
    assert cluster.brokers[1].metadata["a", 0].leader == -1


async def test_a_full_disk_refuses_the_request_and_the_next_one_succeeds(
    cluster: Cluster, controller: Controller
) -> None:
    cluster.disk.fail_append = errno.ENOSPC
    with pytest.raises(KafkaError) as caught:
        await controller.create_topics([NewTopic(name="a")])
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (result,) = await controller.create_topics([NewTopic(name="a")])
    assert result.error is ErrorCode.NONE
    assert set(cluster.brokers[1].replicas) == {("a", 0)}


# Losing office


async def test_losing_the_session_ends_the_office_at_once(
    cluster: Cluster, controller: Controller
) -> None:
    await cluster.store.expire(cluster.sessions[1])
    assert not controller.is_active
    assert cluster.lost == [1]
    with pytest.raises(KafkaError) as caught:
        await controller.create_topics([NewTopic(name="a")])
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_stopped_controller_refuses_requests(
    cluster: Cluster, controller: Controller
) -> None:
    pending = [
        asyncio.ensure_future(controller.create_topics([NewTopic(name=f"t{number}")]))
        for number in range(5)
    ]
    await asyncio.sleep(0)
    await controller.stop()
    answers = await asyncio.gather(*pending, return_exceptions=True)
    refused = [one for one in answers if isinstance(one, KafkaError)]
    assert {one.code for one in refused} == {ErrorCode.NOT_CONTROLLER}
    with pytest.raises(KafkaError) as caught:
        await controller.create_topics([NewTopic(name="a")])
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_deposed_controller_changes_nothing(
    cluster: Cluster, controller: Controller
) -> None:
    """Another controller raised the epoch; this one has not noticed yet."""
    await cluster.store.session().set("/controller_epoch", b"9")
    with pytest.raises(KafkaError) as caught:
        await controller.create_topics([NewTopic(name="a")])
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    assert not controller.is_active
    session = cluster.store.session()
    assert await session.children("/brokers/topics") == []
    assert await session.children("/config/topics") == []


async def test_a_state_written_behind_the_controllers_back_is_read_again(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    path = "/brokers/topics/a/partitions/0/state"
    other = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1]}
    await cluster.store.session().multi([SetData(path, json.dumps(other).encode())])
    await controller.offline_replicas(1, controller.broker_epoch, [("a", 0)])
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch) == (-1, 6)


async def test_alter_partition_is_answered_per_partition(
    cluster: Cluster, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(name="a")])
    known = cluster.brokers[1].metadata["a", 0]

    def wish(topic: str, leader_epoch: int) -> AlterPartition:
        return AlterPartition(
            topic=topic,
            topic_id=known.topic_id,
            partition=0,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            new_isr=(1,),
        )

    same, stale, unknown = await controller.alter_partitions(
        1, controller.broker_epoch, [wish("a", 0), wish("a", -1), wish("b", 0)]
    )
    assert (same.error, same.isr, same.partition_epoch) == (ErrorCode.NONE, (1,), 0)
    assert stale.error is ErrorCode.FENCED_LEADER_EPOCH
    assert unknown.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as caught:
        await controller.alter_partitions(1, controller.broker_epoch - 1, [wish("a", 0)])
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_partition_state_names_its_partition() -> None:
    state = LeaderAndIsr("t", UUID(int=1), 4, 1, 0, (1,), (1,), 0, 1)
    assert str(state.topic_partition) == "t-4"

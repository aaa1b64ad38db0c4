"""Two and three controllers on one store: elections, failures, restarts, fencing."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.unit.controller.harness import Cluster, set_configs

from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.config.types import ResourceType
from moldau.controller import (
    ConfigAlteration,
    ConfigResult,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from moldau.controller.states import PartitionState
from moldau.coordination import paths
from moldau.coordination.cluster import prepare
from moldau.coordination.errors import StoreCorruptError, StoreUnavailableError
from moldau.coordination.store import Create, Delete, Op, OpResult, SetData
from moldau.coordination.znodes import Endpoint
from moldau.errors import ErrorCode, KafkaError


async def three_brokers() -> Cluster:
    cluster = Cluster()
    for broker in (1, 2, 3):
        await cluster.start(broker)
    return cluster


def check_agreement(cluster: Cluster, live: set[int]) -> None:
    """All live brokers see the same cluster, and hold what it says they hold."""
    views = [cluster.brokers[broker].metadata for broker in sorted(live)]
    assert all(view == views[0] for view in views)
    for broker in live:
        assert cluster.brokers[broker].brokers == sorted(live)
        mine = {key for key, state in views[0].items() if broker in state.replicas}
        assert set(cluster.brokers[broker].replicas) == mine
        for key in mine:
            assert cluster.brokers[broker].replicas[key] == views[0][key]


async def check_store(cluster: Cluster, live: set[int]) -> None:
    """What the brokers were told is what the store says."""
    session = cluster.store.session()
    for (topic, number), state in cluster.brokers[min(live)].metadata.items():
        data, stat = await session.get(paths.partition_state(topic, number))
        stored = json.loads(data)
        assert stored["leader"] == state.leader
        assert stored["leader_epoch"] == state.leader_epoch
        assert tuple(stored["isr"]) == state.isr
        assert stat.version == state.partition_epoch


async def test_exactly_one_controller_is_in_charge() -> None:
    cluster = await three_brokers()
    assert cluster.active is cluster.controllers[1]
    assert [one.controller_id for one in cluster.controllers.values()] == [1, 1, 1]
    check_agreement(cluster, {1, 2, 3})
    with pytest.raises(KafkaError) as caught:
        await cluster.controllers[2].create_topics([NewTopic(name="a")])
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


async def test_all_brokers_are_told_where_one_is_found_with_its_new_listeners() -> None:
    cluster = await three_brokers()
    endpoints = (Endpoint("PLAINTEXT", "host2", 9092), Endpoint("EXTRA", "host2", 9093))
    before = {broker: len(cluster.brokers[broker].updates) for broker in cluster.brokers}
    (result,) = await cluster.active.alter_configs(
        [
            ConfigAlteration(
                resource_type=ResourceType.BROKER,
                resource_name="2",
                changes=[Alteration("listeners", AlterOperation.SET, "as it says")],
                endpoints=endpoints,
            )
        ]
    )
    assert result == ConfigResult()
    for broker in cluster.brokers.values():
        (update,) = broker.updates[before[broker.id] :]
        assert update.broker_configs == {"2": {"listeners": "as it says"}}
        registrations = {one.id: one for one in update.metadata.brokers or ()}
        assert registrations[2].endpoints == endpoints
        assert registrations[2].epoch == cluster.controllers[2].broker_epoch
    check_agreement(cluster, {1, 2, 3})
    await cluster.kill(1)  # the next controller reads it in the store
    update = cluster.brokers[3].updates[-1]
    assert {one.id: one for one in update.metadata.brokers or ()}[2].endpoints == endpoints


async def test_leaders_are_spread_over_the_brokers() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=6, replication_factor=2)])
    leaders = Counter(state.leader for state in cluster.brokers[1].metadata.values())
    assert leaders == {1: 2, 2: 2, 3: 2}
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_when_the_controller_dies_one_other_takes_over_and_elects_in_one_batch() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [NewTopic(name="a", num_partitions=30, replication_factor=3)]
    )
    before = dict(cluster.brokers[2].metadata)
    led = {key for key, state in before.items() if state.leader == 1}
    assert len(led) == 10
    heard = len(cluster.brokers[2].updates)
    syncs = cluster.disk.appends

    await cluster.kill(1)

    assert cluster.active.epoch == 2
    assert cluster.active in (cluster.controllers[2], cluster.controllers[3])
    assert not cluster.controllers[1].is_active
    check_agreement(cluster, {2, 3})
    await check_store(cluster, {2, 3})
    for key, state in cluster.brokers[2].metadata.items():
        assert state.leader in (2, 3)
        assert state.isr == tuple(one for one in before[key].isr if one != 1)
        assert state.leader_epoch == (1 if key in led else 0), "only lost leaderships are new"
    assert len(cluster.brokers[2].updates) == heard + 1, "one message for all partitions"
    # One for the session's end, one for the office, one for leaders and one for in-sync sets.
    assert cluster.disk.appends - syncs <= 4


async def test_the_office_is_passed_on_as_often_as_needed() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=3, replication_factor=3)])
    for epoch in (2, 3):
        dying = cluster.active
        (broker,) = [one for one, held in cluster.controllers.items() if held is dying]
        await cluster.kill(broker)
        del cluster.controllers[broker]
        assert cluster.active.epoch == epoch
    (last,) = cluster.controllers
    assert {state.leader for state in cluster.brokers[last].metadata.values()} == {last}
    assert {state.isr for state in cluster.brokers[last].metadata.values()} == {(last,)}
    check_agreement(cluster, {last})


async def test_a_controller_that_stops_hands_over_too() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=3, replication_factor=2)])
    await cluster.stop(1)
    assert cluster.active.epoch == 2
    assert all(state.leader in (2, 3) for state in cluster.brokers[2].metadata.values())
    check_agreement(cluster, {2, 3})


async def test_a_follower_that_dies_leaves_the_isr_but_no_leadership_changes() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2, 3])])])
    await cluster.kill(3)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2))
    assert state.partition_epoch == 1
    check_agreement(cluster, {1, 2})
    await check_store(cluster, {1, 2})


async def test_a_partition_without_live_in_sync_replica_waits_for_one() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [NewTopic(name="a", assignments=[(0, [2])]), NewTopic(name="b", assignments=[(0, [3, 2])])]
    )
    await cluster.kill(2)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 1, (2,))
    assert cluster.brokers[1].metadata["b", 0].leader == 3
    del cluster.controllers[2]
    await cluster.start(2)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch, state.isr) == (2, 2, (2,))
    assert cluster.brokers[2].replicas["a", 0] == state
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_an_unclean_election_happens_only_where_it_is_allowed() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [
            NewTopic(
                name="loose",
                assignments=[(0, [2, 3])],
                configs={"unclean.leader.election.enable": "true"},
            ),
            NewTopic(name="strict", assignments=[(0, [2, 3])]),
        ]
    )
    for name in ("loose", "strict"):
        result = await cluster.alter_isr(cluster.brokers[1].metadata[name, 0], 2)
        assert (result.error, result.isr, result.partition_epoch) == (ErrorCode.NONE, (2,), 1)
    await cluster.kill(2)
    loose, strict = (cluster.brokers[1].metadata[name, 0] for name in ("loose", "strict"))
    assert (loose.leader, loose.isr, loose.leader_recovery_state) == (3, (3,), 1)
    assert (strict.leader, strict.isr) == (-1, (2,))
    await check_store(cluster, {1, 3})
    await set_configs(
        cluster.active, ResourceType.TOPIC, "strict", {"unclean.leader.election.enable": "true"}
    )
    strict = cluster.brokers[1].metadata["strict", 0]
    assert (strict.leader, strict.isr, strict.leader_recovery_state) == (3, (3,), 1)
    await check_store(cluster, {1, 3})


@pytest.mark.parametrize("entity", ["", "1"])
async def test_a_default_set_at_run_time_allows_unclean_elections_and_holds_for_the_next(
    entity: str,
) -> None:
    """For all brokers or for the controller's own; a topic's own setting wins."""
    cluster = await three_brokers()
    allow = {"unclean.leader.election.enable": "true"}
    refuse = {"unclean.leader.election.enable": "false"}
    await cluster.active.create_topics(
        [
            NewTopic(name="plain", assignments=[(0, [2, 3])]),
            NewTopic(name="strict", assignments=[(0, [2, 3])], configs=refuse),
            NewTopic(name="later", assignments=[(0, [3, 2])]),
        ]
    )
    for name, leader in (("plain", 2), ("strict", 2), ("later", 3)):
        await cluster.alter_isr(cluster.brokers[1].metadata[name, 0], leader)
    await cluster.kill(2)
    metadata = cluster.brokers[1].metadata
    assert metadata["plain", 0].leader == metadata["strict", 0].leader == -1
    await set_configs(cluster.active, ResourceType.BROKER, "3", allow)
    assert metadata["plain", 0].leader == -1, "another broker's setting is not the controller's"
    await set_configs(cluster.active, ResourceType.BROKER, entity, allow)
    assert metadata["plain", 0].leader == 3
    assert metadata["strict", 0].leader == -1
    await set_configs(cluster.active, ResourceType.BROKER, entity, {})
    await cluster.start(2)
    await cluster.kill(3)
    assert metadata["later", 0].leader == -1, "taken back"
    await check_store(cluster, {1, 2})


async def test_a_store_that_cannot_be_read_leaves_the_office_to_others_and_ends_the_start() -> None:
    cluster = await three_brokers()
    await cluster.store.session().create("/brokers/topics/bad", b"not json")
    await cluster.kill(1)
    assert not any(one.is_active for one in cluster.controllers.values())
    assert await cluster.store.session().exists("/controller") is None
    with pytest.raises(StoreCorruptError, match="bad"):
        await cluster.start(4)


async def test_a_broker_that_restarts_unnoticed_gives_its_leaderships_away() -> None:
    """Its old session ends and the new one registers before the controller looks."""
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [
            NewTopic(name="shared", assignments=[(0, [2, 3])]),
            NewTopic(name="own", assignments=[(0, [2])]),
        ]
    )
    old = cluster.controllers.pop(2)
    earlier = old.broker_epoch
    await cluster.expire(2)
    await cluster.start(2)
    assert cluster.controllers[2].broker_epoch > earlier
    shared = cluster.brokers[1].metadata["shared", 0]
    assert (shared.leader, shared.isr, shared.leader_epoch) == (3, (3,), 1)
    own = cluster.brokers[1].metadata["own", 0]
    assert (own.leader, own.isr) == (2, (2,))
    assert own.leader_epoch >= 1
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_a_new_controller_knows_leaderships_of_an_earlier_life() -> None:
    """The whole cluster restarts: brokers 2 and 3 come back, then the first controller."""
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [
            NewTopic(name="a", num_partitions=6, replication_factor=3),
            NewTopic(name="own", assignments=[(0, [3])]),
        ]
    )
    before = dict(cluster.brokers[1].metadata)
    after = await cluster.crash()
    for broker in (3, 2, 1):
        await after.start(broker)
    assert after.active is after.controllers[3]
    assert after.active.epoch == 2
    for key, state in after.brokers[1].metadata.items():
        assert state.leader > 0
        assert state.leader_epoch > before[key].leader_epoch
    check_agreement(after, {1, 2, 3})
    await check_store(after, {1, 2, 3})


async def test_messages_of_the_deposed_controller_are_refused_by_the_brokers() -> None:
    cluster = await three_brokers()
    stale = cluster.brokers[2].updates[-1]
    assert stale.controller_epoch == 1
    await cluster.kill(1)
    with pytest.raises(KafkaError) as caught:
        cluster.brokers[2].apply(stale)
    assert caught.value.code is ErrorCode.STALE_CONTROLLER_EPOCH


async def test_a_broker_that_joins_learns_everything() -> None:
    cluster = Cluster()
    await cluster.start(1)
    await cluster.active.create_topics([NewTopic(name="a", configs={"retention.ms": "1"})])
    await cluster.start(2)
    assert cluster.brokers[2].metadata == cluster.brokers[1].metadata
    assert cluster.brokers[2].topic_configs == {"a": {"retention.ms": "1"}}
    check_agreement(cluster, {1, 2})
    await cluster.active.create_topics([NewTopic(name="b", num_partitions=2, replication_factor=2)])
    check_agreement(cluster, {1, 2})


async def test_a_deletion_waits_for_the_replica_of_a_dead_broker() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 3])])])
    await cluster.kill(3)
    (result,) = await cluster.active.delete_topics([TopicReference("a")])
    assert result.error is ErrorCode.NONE
    assert cluster.brokers[1].deleted == [("a", 0)]
    session = cluster.store.session()
    assert await session.children("/admin/delete_topics") == ["a"]
    assert cluster.brokers[2].metadata == {}
    del cluster.controllers[3]
    await cluster.start(3)
    assert cluster.brokers[3].deleted == [("a", 0)]
    assert await session.children("/admin/delete_topics") == []
    assert await session.children("/brokers/topics") == []
    (again,) = await cluster.active.create_topics([NewTopic(name="a")])
    assert again.error is ErrorCode.NONE


async def test_a_deletion_survives_the_controller() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 3])])])
    await cluster.kill(3)
    del cluster.controllers[3]
    await cluster.active.delete_topics([TopicReference("a")])
    await cluster.kill(1)
    del cluster.controllers[1]
    assert cluster.active is cluster.controllers[2]
    await cluster.start(1)
    await cluster.start(3)
    assert await cluster.store.session().children("/admin/delete_topics") == []
    assert await cluster.store.session().children("/brokers/topics") == []


async def test_what_a_broker_could_not_delete_it_is_told_to_delete_again() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2]), (1, [2, 3])])])
    cluster.brokers[2].failing = {("a", 0), ("a", 1)}
    await cluster.active.delete_topics([TopicReference("a")])
    await cluster.settle()
    session = cluster.store.session()
    assert await session.children("/brokers/topics") == ["a"]
    attempts = len(cluster.brokers[2].updates)
    for _ in range(10):
        cluster.clock.advance(60)
        await cluster.settle()
    assert attempts + 8 < len(cluster.brokers[2].updates) < attempts + 16
    cluster.brokers[2].failing.clear()
    cluster.clock.advance(90)
    await cluster.settle()
    assert await session.children("/brokers/topics") == []
    assert await session.children("/admin/delete_topics") == []
    assert cluster.brokers[2].deleted == [("a", 0), ("a", 1)]


async def test_a_replica_that_a_full_disk_could_not_make_keeps_no_topic() -> None:
    cluster = await three_brokers()
    cluster.brokers[2].full = True
    (made,) = await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2])])])
    assert made.error is ErrorCode.NONE
    await cluster.settle()
    assert list(cluster.brokers[1].metadata["a", 0].offline_replicas) == [2]
    await cluster.active.delete_topics([TopicReference("a")])
    await cluster.settle()
    assert await cluster.store.session().children("/brokers/topics") == []


async def test_a_topic_grows_and_goes_while_one_of_its_brokers_is_down() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2, 3])])])
    await cluster.stop(3)
    (grown,) = await cluster.active.create_partitions([NewPartitions(topic="a", count=7)])
    assert grown.error is ErrorCode.NONE
    await cluster.settle()
    for number in range(1, 7):
        state = cluster.brokers[1].metadata["a", number]
        assert state.replicas[-1] == 3
        assert (state.leader, sorted(state.isr)) == (state.replicas[0], [1, 2])
    assert {cluster.brokers[1].metadata["a", number].leader for number in range(1, 7)} == {1, 2}
    await cluster.active.delete_topics([TopicReference("a")])
    await cluster.start(3)
    await cluster.settle()
    assert cluster.brokers[3].metadata == cluster.brokers[3].replicas == {}
    assert await cluster.store.session().children("/brokers/topics") == []


async def test_a_topic_grows_on_those_that_are_up_if_they_are_enough() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [3, 2])])])
    await cluster.stop(3)
    await cluster.active.create_partitions([NewPartitions(topic="a", count=5)])
    await cluster.settle()
    for number in range(1, 5):
        assert set(cluster.brokers[1].metadata["a", number].replicas) == {1, 2}


async def test_an_isr_change_is_told_to_all_brokers() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2, 3])])])
    result = await cluster.alter_isr(cluster.brokers[1].metadata["a", 0], 1, 3)
    assert (result.error, result.isr, result.leader_epoch) == (ErrorCode.NONE, (1, 3), 0)
    assert cluster.brokers[2].metadata["a", 0].isr == (1, 3)
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_a_topic_without_an_id_gets_one_that_stays() -> None:
    """As Kafka 2.7 wrote them: logs remember the id, and every later controller must know it."""
    cluster = Cluster()
    await cluster.open()
    session = cluster.store.session()
    await prepare(session)
    node = {"version": 2, "partitions": {"0": [2, 3]}, "adding_replicas": {}}
    await session.create(paths.topic("old"), json.dumps(node).encode())
    await session.create(paths.partitions("old"))
    for broker in (1, 2, 3):
        await cluster.start(broker)
    given = cluster.brokers[2].metadata["old", 0].topic_id
    data, _ = await session.get(paths.topic("old"))
    assert "topic_id" in json.loads(data)
    await cluster.stop(1)
    await cluster.settle()
    assert cluster.brokers[2].metadata["old", 0].topic_id == given
    (grown,) = await cluster.active.create_partitions([NewPartitions(topic="old", count=2)])
    assert grown.error is ErrorCode.NONE


async def test_brokers_hear_of_a_state_that_was_written_behind_the_controllers_back() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [1, 2, 3])])])
    state = cluster.brokers[1].metadata["a", 0]
    other = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 1, "isr": [2, 3]}
    path = paths.partition_state("a", 0)
    await cluster.store.session().multi([SetData(path, json.dumps(other).encode())])
    refused = await cluster.alter_isr(state, 1, 2)
    assert refused.error is ErrorCode.INVALID_UPDATE_VERSION
    await cluster.settle()
    assert cluster.brokers[1].replicas["a", 0].leader == 2
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_a_replica_is_offline_until_its_broker_restarts() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    epoch = cluster.controllers[3].broker_epoch
    for _ in range(2):
        await cluster.active.offline_replicas(3, epoch, [("a", 0)])

    def offline() -> list[int]:
        return list(cluster.brokers[1].metadata["a", 0].offline_replicas)

    assert offline() == [3]
    await cluster.alter_isr(cluster.brokers[1].metadata["a", 0], 2)
    assert offline() == [3]
    await cluster.stop(3)
    assert offline() == []
    await cluster.start(3)
    check_agreement(cluster, {1, 2, 3})
    assert offline() == []
    assert cluster.brokers[1].metadata["a", 0].isr == (2,)


async def test_others_lead_what_a_disk_has_lost_though_the_store_was_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    cluster.brokers[2].failing.add(("a", 0))
    append = cluster.disk.append
    refused: list[str] = []

    def fail_once(name: str, data: bytes, at: int) -> None:
        if not cluster.brokers[2].metadata["a", 0].offline_replicas and len(refused) < 2:
            refused.append(name)
            if len(refused) == 2:  # the first write is what the broker is told of
                raise OSError(errno.ENOSPC, "full")
        append(name, data, at)

    monkeypatch.setattr(cluster.disk, "append", fail_once)
    await cluster.alter_isr(cluster.brokers[1].metadata["a", 0], 2)
    await cluster.settle()
    assert len(refused) == 2
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, list(state.offline_replicas)) == (-1, [2])
    updates = len(cluster.brokers[1].updates)
    await cluster.settle()
    assert len(cluster.brokers[1].updates) == updates, "nobody says the same again and again"


async def test_racks_are_used_when_all_brokers_name_one() -> None:
    cluster = Cluster()
    for broker, rack in ((1, "x"), (2, "x"), (3, "y"), (4, "y")):
        await cluster.start(broker, rack=rack)
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=8, replication_factor=2)])
    rack_of = {1: "x", 2: "x", 3: "y", 4: "y"}
    for state in cluster.brokers[1].metadata.values():
        assert {rack_of[replica] for replica in state.replicas} == {"x", "y"}


async def test_a_broker_that_is_about_to_stop_hands_over() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics(
        [
            NewTopic(name="a", num_partitions=6, replication_factor=3),
            NewTopic(name="own", assignments=[(0, [2])]),
            NewTopic(name="b", assignments=[(0, [2, 3])]),
        ]
    )
    await cluster.alter_isr(cluster.brokers[1].metadata["b", 0], 2)
    epoch = cluster.controllers[2].broker_epoch
    with pytest.raises(KafkaError) as caught:
        await cluster.active.controlled_shutdown(2, epoch - 1)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    syncs = cluster.disk.appends
    assert await cluster.active.controlled_shutdown(2, epoch) == [("b", 0)]
    assert cluster.disk.appends == syncs + 1, "one batch for all partitions"
    assert await cluster.active.controlled_shutdown(2, epoch) == [("b", 0)], "asked again"
    await cluster.settle()
    for number in range(6):
        state = cluster.brokers[1].metadata["a", number]
        assert state.leader in (1, 3)
        assert set(state.isr) == {1, 3}
    assert cluster.brokers[1].metadata["own", 0].leader == 2
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})
    state = cluster.brokers[1].metadata["a", 0]
    refused = await cluster.alter_isr(state, 1, 2, 3)
    assert refused.error is ErrorCode.INELIGIBLE_REPLICA
    await cluster.stop(2)
    await cluster.start(2)
    again = await cluster.alter_isr(state, 1, 2, 3)
    assert again.error is ErrorCode.INVALID_UPDATE_VERSION, "what was refused stays so"
    taken = await cluster.alter_isr(cluster.brokers[1].metadata["a", 0], 1, 2, 3)
    assert taken.error is ErrorCode.NONE, "its next life is welcome"


async def test_a_replica_that_may_not_join_does_not_join_by_a_copy_of_the_request_either() -> None:
    """Not even with a controller that does not know that its broker is about to stop."""
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [3, 2])])])
    await cluster.active.controlled_shutdown(2, cluster.controllers[2].broker_epoch)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.isr) == (3, (3,))
    refused = await cluster.alter_isr(state, 3, 2)
    assert refused.error is ErrorCode.INELIGIBLE_REPLICA
    await cluster.settle()
    renewed = cluster.brokers[3].replicas["a", 0]
    assert (renewed.isr, renewed.partition_epoch) == ((3,), state.partition_epoch + 1)
    await cluster.kill(1)
    copy = await cluster.alter_isr(state, 3, 2)
    assert copy.error is ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.brokers[3].replicas["a", 0].isr == (3,)


async def test_what_is_asked_for_a_topic_is_not_done_to_its_namesake() -> None:
    cluster = await three_brokers()
    topic = NewTopic(name="a", assignments=[(0, [1, 2, 3])])
    await cluster.active.create_topics([topic])
    state = cluster.brokers[1].metadata["a", 0]
    await cluster.active.delete_topics([TopicReference("a")])
    await cluster.active.create_topics([topic])
    late = await cluster.alter_isr(state, 1)
    assert late.error is ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.brokers[1].metadata["a", 0].isr == (1, 2, 3)


async def test_replicas_that_left_too_few_behind_may_lead_also_for_the_next_controller() -> None:
    cluster = await three_brokers()
    two = {"min.insync.replicas": "2"}
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])], configs=two)])
    await cluster.kill(3)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.isr, state.elr) == (2, (2,), (3,))
    await cluster.kill(2)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, set(state.isr), state.elr) == (-1, {2, 3}, ())
    await cluster.kill(1)
    await cluster.start(3)
    state = cluster.brokers[3].metadata["a", 0]
    assert (state.leader, state.isr, state.elr) == (3, (3,), (2,))
    await cluster.start(2, has_lost=True)
    state = cluster.brokers[3].metadata["a", 0]
    assert (state.leader, state.isr, state.elr) == (3, (3,), ())
    await check_store(cluster, {2, 3})


async def test_a_restart_that_the_controller_missed_is_seen_by_the_next_one() -> None:
    """A state written after a broker registered again, by one who had not noticed."""
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    session = cluster.store.session()
    before, _ = await session.get(paths.partition_state("a", 0))
    await cluster.kill(1)
    await cluster.kill(2)
    await cluster.kill(3)
    for broker in (2, 3, 1):
        # As if the state had been written last, for the lives before.
        await session.set(paths.partition_state("a", 0), before)
        await cluster.start(broker)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.isr) == (2, (2,))
    assert state.leader_epoch == 1


async def test_what_a_controller_could_not_write_it_writes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [3, 2])])])
    append, made = cluster.disk.append, []

    def fail_second(name: str, data: bytes, at: int) -> None:
        made.append(name)
        if len(made) == 2:  # the first ends the session, the second elects
            raise OSError(errno.ENOSPC, "full")
        append(name, data, at)

    monkeypatch.setattr(cluster.disk, "append", fail_second)
    await cluster.kill(3)
    assert len(made) > 2
    assert cluster.active is cluster.controllers[1], "it stayed in office"
    assert cluster.brokers[1].metadata["a", 0].leader == 2
    check_agreement(cluster, {1, 2})
    await check_store(cluster, {1, 2})


async def test_a_broker_whose_session_ended_joins_again_with_a_new_epoch() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=3, replication_factor=3)])
    for broker in (1, 2):  # the controller, then another
        epoch = cluster.controllers[broker].broker_epoch
        await cluster.lose_session(broker)
        assert cluster.controllers[broker].broker_epoch > epoch
        assert cluster.lost[-1] == broker
    assert cluster.active.epoch > 1
    check_agreement(cluster, {1, 2, 3})
    await check_store(cluster, {1, 2, 3})


async def test_a_controller_that_could_not_take_over_tries_again_later() -> None:
    cluster = await three_brokers()
    session = cluster.store.session()
    await session.create("/brokers/topics/bad", b"not json")
    await cluster.kill(1)
    assert not any(one.is_active for one in cluster.controllers.values())
    await session.delete("/brokers/topics/bad")
    cluster.clock.advance(60)
    await cluster.settle()
    assert cluster.active in (cluster.controllers[2], cluster.controllers[3])
    check_agreement(cluster, {2, 3})


async def test_an_office_that_nobody_holds_is_given_back() -> None:
    """A broker finds its own node: it won by a write of which it never heard."""
    cluster = await three_brokers()
    await cluster.sessions[1].delete(paths.CONTROLLER)
    await cluster.sessions[2].create(paths.CONTROLLER, b'{"brokerid":2}', ephemeral=True)
    await cluster.settle()
    assert cluster.active.epoch == 2
    assert cluster.active.controller_id in (1, 2, 3)


async def test_who_finds_another_in_its_office_knows_whom_to_ask() -> None:
    cluster = await three_brokers()
    await cluster.store.session().multi(
        [
            Delete(paths.CONTROLLER),
            Create(paths.CONTROLLER, b'{"brokerid":9}', ephemeral=True),
        ]
    )
    await cluster.settle()
    assert not any(one.is_active for one in cluster.controllers.values())
    assert [one.controller_id for one in cluster.controllers.values()] == [9, 9, 9]


async def test_who_hears_of_a_later_controller_retires() -> None:
    cluster = await three_brokers()
    controller = cluster.active
    controller.saw_epoch(1)
    assert cluster.active is controller
    controller.saw_epoch(2)
    assert not [one for one in cluster.controllers.values() if one.is_active]
    await cluster.settle()
    assert cluster.active.epoch == 2, "there was none: somebody is elected"


@pytest.mark.parametrize(("kind", "name"), [(ResourceType.TOPIC, "a"), (ResourceType.BROKER, "")])
async def test_nobody_stays_eligible_when_fewer_in_sync_replicas_become_enough(
    kind: ResourceType, name: str
) -> None:
    cluster = await three_brokers()
    two = {"min.insync.replicas": "2"}
    await set_configs(cluster.active, ResourceType.BROKER, "", two)
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    await cluster.kill(3)
    assert cluster.brokers[1].metadata["a", 0].elr == (3,)
    await set_configs(cluster.active, kind, name, {"retention.ms": "1"} if name else two)
    assert cluster.brokers[1].metadata["a", 0].elr == (3,), "it is as it was"
    await set_configs(cluster.active, kind, name, {"min.insync.replicas": "1"})
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.isr, state.elr) == (2, (2,), ())
    await check_store(cluster, {1, 2})


@pytest.mark.parametrize(("kind", "name"), [(ResourceType.TOPIC, "a"), (ResourceType.BROKER, "")])
async def test_in_sync_replicas_change_when_their_leader_knows_how_many_it_needs(
    kind: ResourceType, name: str
) -> None:
    """A leader that still takes one for enough would acknowledge what those that leave, and may
    lead by the new number, do not have.
    """
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    cluster.brokers[2].running.clear()
    two = {"min.insync.replicas": "2"}
    setting = asyncio.ensure_future(set_configs(cluster.active, kind, name, two))
    for _ in range(20):
        await asyncio.sleep(0)
    state = cluster.brokers[1].metadata["a", 0]
    with pytest.raises(KafkaError) as refusal:
        await cluster.alter_isr(state, 2)
    assert refusal.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.brokers[1].metadata["a", 0].isr == (2, 3)
    cluster.brokers[2].running.set()
    await setting
    await cluster.settle()
    done = await cluster.alter_isr(state, 2)
    assert (done.error, tuple(done.isr)) == (ErrorCode.NONE, (2,))
    await cluster.settle()
    assert cluster.brokers[1].metadata["a", 0].elr == (3,)


async def test_a_topic_that_cannot_be_written_keeps_nobody_from_using_and_electing_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an ensemble may refuse one of two transactions."""
    cluster = await three_brokers()
    session = cluster.sessions[cluster.active.controller_id]
    multi_many = session.multi_many

    async def refuse_b(batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        refused = [any("/b/" in op.path for op in ops) for ops in batches]
        done = await multi_many([ops for ops, no in zip(batches, refused, strict=True) if not no])
        results = iter(done)
        return [StoreUnavailableError("b") if no else next(results) for no in refused]

    monkeypatch.setattr(session, "multi_many", refuse_b)
    with pytest.raises(KafkaError):
        await cluster.active.create_topics(
            [
                NewTopic(name="a", assignments=[(0, [2, 3])]),
                NewTopic(name="b", assignments=[(0, [2, 3])]),
                NewTopic(name="c", assignments=[(0, [2, 3])]),
            ]
        )
    assert set(cluster.brokers[3].replicas) == {("a", 0), ("c", 0)}
    await cluster.kill(2)
    assert [cluster.brokers[1].metadata[name, 0].leader for name in ("a", "c")] == [3, 3]


async def test_partitions_that_were_written_without_the_controller_knowing_are_found() -> None:
    cluster = await three_brokers()
    await cluster.active.create_topics([NewTopic(name="a", assignments=[(0, [2, 3])])])
    context = cluster.active.context
    assert context is not None
    del context.topics["a"].partitions[0]
    context.partition_states.start({("a", 0): PartitionState.NEW})
    await cluster.kill(2)
    state = cluster.brokers[1].metadata["a", 0]
    assert (state.leader, state.leader_epoch) == (3, 1)


async def test_brokers_on_one_host_are_one_rack_unless_they_name_theirs() -> None:
    cluster = Cluster()
    for broker in (1, 2, 3, 4):
        await cluster.start(broker, host="one" if broker < 3 else "two")
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=8, replication_factor=2)])
    for state in cluster.brokers[1].metadata.values():
        assert {replica < 3 for replica in state.replicas} == {True, False}


async def test_a_broker_that_was_cordoned_gets_no_replicas_whoever_is_the_controller() -> None:
    cluster = await three_brokers()
    await set_configs(cluster.active, ResourceType.BROKER, "3", {"cordoned.log.dirs": "*"})
    await cluster.active.create_topics([NewTopic(name="a", num_partitions=8, replication_factor=2)])
    assert all(3 not in state.replicas for state in cluster.brokers[1].metadata.values())
    (refused,) = await cluster.active.create_topics([NewTopic(name="b", replication_factor=3)])
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR

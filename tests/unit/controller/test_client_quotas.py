"""Quotas in the store, on their way to brokers, and those that the controller itself enforces."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from tests.unit.controller.harness import Cluster

from moldau.controller import (
    ClientQuotaAlteration,
    Controller,
    Mutator,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from moldau.coordination import paths
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.store import Create
from moldau.errors import ErrorCode
from moldau.quotas.entity import ClientQuotaEntity

PRODUCE, CONSUME, MUTATE = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"
Entries = Mapping[str, str | None]

ENTITIES: list[tuple[Entries, str]] = [
    ({"user": "u"}, "/config/users/u"),
    ({"user": None}, "/config/users/<default>"),
    ({"user": "a b/c"}, "/config/users/a%20b%2Fc"),
    ({"client-id": "c"}, "/config/clients/c"),
    ({"client-id": None}, "/config/clients/<default>"),
    ({"client-id": "<default>"}, "/config/clients/%3Cdefault%3E"),
    ({"user": "v", "client-id": "c"}, "/config/users/v/clients/c"),
    ({"user": None, "client-id": None}, "/config/users/<default>/clients/<default>"),
    ({"ip": "::1"}, "/config/ips/%3A%3A1"),
    ({"ip": None}, "/config/ips/<default>"),
]


def key_of(entries: Entries) -> str:
    return "connection_creation_rate" if "ip" in entries else PRODUCE


def alteration(entries: Entries, **changes: float | None) -> ClientQuotaAlteration:
    return ClientQuotaAlteration(
        entity=ClientQuotaEntity.of(entries), changes=list(changes.items())
    )


async def alter(controller: Controller, entries: Entries, **changes: float | None) -> None:
    (result,) = await controller.alter_client_quotas([alteration(entries, **changes)])
    assert not result.error, result.message


@pytest.fixture
async def cluster() -> Cluster:
    cluster = Cluster()
    await cluster.start(1)
    return cluster


@pytest.fixture
def controller(cluster: Cluster) -> Controller:
    return cluster.controllers[1]


async def stored(cluster: Cluster, path: str) -> dict[str, str] | None:
    (node,) = await cluster.sessions[1].get_many([path])
    return None if node is None else json.loads(node[0])["config"] if node[0] else {}


@pytest.mark.parametrize(("entries", "path"), ENTITIES)
async def test_a_quota_is_stored_where_kafka_kept_it_and_sent(
    cluster: Cluster, controller: Controller, entries: Entries, path: str
) -> None:
    key = key_of(entries)
    await alter(controller, entries, **{key: 1024.0})
    assert await stored(cluster, path) == {key: "1024"}
    entity = ClientQuotaEntity.of(entries)
    assert cluster.brokers[1].client_quotas[entity] == {key: 1024.0}
    await alter(controller, entries, **{key: None})
    assert await stored(cluster, path) is None
    assert cluster.brokers[1].client_quotas[entity] == {}


async def test_quotas_are_there_after_a_restart(cluster: Cluster, controller: Controller) -> None:
    for number, (entries, _) in enumerate(ENTITIES, 1):
        await alter(controller, entries, **{key_of(entries): number})
    await alter(controller, {"user": "u"}, request_percentage=12.3)
    before = cluster.brokers[1].client_quotas
    after = await cluster.crash()
    await after.start(1)
    assert after.brokers[1].client_quotas == before
    assert len(before) == len(ENTITIES)


async def test_a_user_without_quotas_keeps_those_of_its_clients(
    cluster: Cluster, controller: Controller
) -> None:
    await alter(controller, {"user": "u"}, producer_byte_rate=1)
    await alter(controller, {"user": "u", "client-id": "c"}, producer_byte_rate=2)
    await alter(controller, {"user": "u"}, producer_byte_rate=None)
    assert await stored(cluster, "/config/users/u") == {}
    assert await stored(cluster, "/config/users/u/clients/c") == {PRODUCE: "2"}
    after = await cluster.crash()
    await after.start(1)
    quotas = after.brokers[1].client_quotas
    assert quotas == {ClientQuotaEntity.of({"user": "u", "client-id": "c"}): {PRODUCE: 2.0}}


async def test_one_request_is_written_at_once_and_answered_by_entity(
    cluster: Cluster, controller: Controller
) -> None:
    before = len(cluster.brokers[1].updates)
    results = await controller.alter_client_quotas(
        [
            alteration({"user": "u"}, producer_byte_rate=1),
            alteration({"user": "u", "client-id": "c"}, producer_byte_rate=2),
            alteration({"user": "u", "client-id": "d"}, producer_byte_rate=3),
            alteration({"user": ""}, producer_byte_rate=4),
            alteration({"user": "v"}, bad=5),
            alteration({"user": "w"}, producer_byte_rate=None),
        ]
    )
    invalid = ErrorCode.INVALID_REQUEST
    assert [result.error for result in results] == [0, 0, 0, invalid, invalid, 0]
    assert len(cluster.brokers[1].updates) == before + 1
    assert len(cluster.brokers[1].client_quotas) == 3


async def test_what_is_only_validated_changes_nothing(
    cluster: Cluster, controller: Controller
) -> None:
    wanted = [alteration({"user": "u"}, producer_byte_rate=1), alteration({}, x=1)]
    results = await controller.alter_client_quotas(wanted, validate_only=True)
    assert [result.error for result in results] == [0, ErrorCode.INVALID_REQUEST]
    assert await stored(cluster, "/config/users/u") is None
    assert cluster.brokers[1].client_quotas == {}


async def test_entities_and_keys_named_twice_are_refused(controller: Controller) -> None:
    once = alteration({"user": "u"}, producer_byte_rate=1)
    (result,) = await controller.alter_client_quotas([once, once])
    assert result.error is ErrorCode.INVALID_REQUEST
    assert str(result.message).startswith("Ignoring duplicate entity ClientQuotaEntity(entries={us")
    twice = ClientQuotaAlteration(
        entity=ClientQuotaEntity.of({"user": "v"}), changes=[(PRODUCE, 1), (PRODUCE, 2)]
    )
    (result,) = await controller.alter_client_quotas([twice])
    assert str(result.message).startswith("Duplicate quota key")


async def test_other_things_in_a_users_node_are_no_quotas(cluster: Cluster) -> None:
    node = json.dumps({"version": 1, "config": {"SCRAM-SHA-256": "salt=…", CONSUME: "7"}})
    await cluster.sessions[1].multi([Create("/config/users/u", node.encode())])
    after = await cluster.crash()
    await after.start(1)
    assert list(after.brokers[1].client_quotas.values()) == [{CONSUME: 7.0}]


async def test_a_damaged_node_is_told(cluster: Cluster) -> None:
    node = json.dumps({"version": 1, "config": {CONSUME: "many"}})
    path = paths.client_quotas(ClientQuotaEntity.of({"user": "u"}))
    await cluster.sessions[1].multi([Create(path, node.encode())])
    after = await cluster.crash()
    with pytest.raises(StoreCorruptError, match=path):
        await after.start(1)


# What the controller enforces itself

MUTATOR = Mutator(user="u", client_id="c")
OLD_CLIENT = Mutator(user="u", client_id="c", strict=False)
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
async def limited(cluster: Cluster, controller: Controller) -> Controller:
    """One partition a second: a burst of 11 at most."""
    await alter(controller, {"user": "u"}, controller_mutation_rate=1)
    return controller


def topics(*sizes: int) -> list[NewTopic]:
    return [
        NewTopic(name=f"t{number}", num_partitions=size, replication_factor=1)
        for number, size in enumerate(sizes)
    ]


async def test_what_goes_over_the_quota_is_let_through_once(
    cluster: Cluster, limited: Controller
) -> None:
    created = await limited.create_topics(topics(5, 20, 1), mutator=MUTATOR)
    assert [result.error for result in created] == [0, 0, EXCEEDED]
    # 11 - 5 - 20 tokens are left: 14 seconds of debt.
    throttle_ms = {result.throttle_ms for result in created}
    assert len(throttle_ms) == 1
    assert 13_000 < throttle_ms.pop() <= 14_000
    (deleted,) = await limited.delete_topics([TopicReference("t0")], mutator=MUTATOR)
    assert deleted.error is EXCEEDED
    (grown,) = await limited.create_partitions(
        [NewPartitions(topic="t0", count=6)], mutator=MUTATOR
    )
    assert grown.error is EXCEEDED
    (other,) = await limited.delete_topics([TopicReference("t0")], mutator=None)
    assert other.error is ErrorCode.NONE
    cluster._now += 14_000
    (grown,) = await limited.create_partitions(
        [NewPartitions(topic="t1", count=21)], mutator=MUTATOR
    )
    assert (grown.error, grown.throttle_ms) == (0, 0)


async def test_a_client_that_does_not_know_the_error_has_to_wait(limited: Controller) -> None:
    created = await limited.create_topics(topics(21, 10), mutator=OLD_CLIENT)
    assert [result.error for result in created] == [0, 0]
    assert 19_000 < created[0].throttle_ms <= 20_000


async def test_what_fails_costs_nothing_and_a_rehearsal_as_much(limited: Controller) -> None:
    await limited.create_topics(topics(11), mutator=MUTATOR)
    (again,) = await limited.create_topics(topics(100), mutator=MUTATOR)
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS
    rehearsed = NewTopic(name="r", num_partitions=30, replication_factor=1)
    (result,) = await limited.create_topics([rehearsed], validate_only=True, mutator=MUTATOR)
    assert (result.error, result.throttle_ms) == (0, 0)
    (result,) = await limited.create_topics([rehearsed], mutator=MUTATOR)
    assert result.error is EXCEEDED


async def test_the_next_controller_goes_on_enforcing(cluster: Cluster, limited: Controller) -> None:
    after = await cluster.crash()
    controller = await after.start(1)
    (first, second) = await controller.auto_create(["a", "b"], mutator=MUTATOR)
    assert (first.error, second.error) == (0, 0)
    (big,) = await controller.create_topics(topics(10), mutator=MUTATOR)
    assert big.error == 0
    (late,) = await controller.auto_create(["c"], mutator=MUTATOR)
    assert late.error is EXCEEDED

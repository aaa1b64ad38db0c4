"""Quotas in the store, on their way to brokers, and those that the controller itself enforces."""

from __future__ import annotations

import json
import sys
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
from moldau.coordination.store import Create
from moldau.errors import ErrorCode
from moldau.quotas.entity import ClientQuotaEntity

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
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


async def test_other_things_in_a_users_node_outlive_its_quotas(cluster: Cluster) -> None:
    path, scram = "/config/users/u", {"SCRAM-SHA-256": "salt=…"}
    node = json.dumps({"version": 1, "config": {**scram, CONSUME: "7"}})
    await cluster.sessions[1].multi([Create(path, node.encode())])
    after = await cluster.crash()
    controller = await after.start(1)
    await alter(controller, {"user": "u"}, consumer_byte_rate=8)
    assert await stored(after, path) == {**scram, CONSUME: "8"}
    await alter(controller, {"user": "u"}, consumer_byte_rate=None)
    assert await stored(after, path) == scram


def config_node(**quotas: str) -> bytes:
    return json.dumps({"version": 1, "config": quotas}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b'{"version":1,"config":{"producer_byte_rate":null}}',
        *(config_node(producer_byte_rate=bad) for bad in ("many", "0", "-5", "nan", "inf", "1.5")),
    ],
)
async def test_a_damaged_node_is_told_and_can_be_mended(
    cluster: Cluster, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = "/config/users/u"
    whole = Create("/config/users/v", config_node(producer_byte_rate="3"))
    await cluster.sessions[1].multi([Create(damaged, data), whole])
    after = await cluster.crash()
    controller = await after.start(1)
    assert damaged in caplog.text
    other = ClientQuotaEntity.of({"user": "v"})
    assert after.brokers[1].client_quotas == {other: {PRODUCE: 3.0}}
    await alter(controller, {"user": "u"}, producer_byte_rate=4)
    assert await stored(after, damaged) == {PRODUCE: "4"}


async def test_the_sound_quotas_of_a_node_are_in_force(cluster: Cluster) -> None:
    node = config_node(producer_byte_rate="0", consumer_byte_rate="7", controller_mutation_rate="0")
    await cluster.sessions[1].multi([Create("/config/users/u", node)])
    after = await cluster.crash()
    controller = await after.start(1)
    assert list(after.brokers[1].client_quotas.values()) == [{CONSUME: 7.0}]
    (created,) = await controller.create_topics(topics(100), mutator=MUTATOR)
    assert (created.error, created.throttle_ms) == (0, 0)


async def test_an_address_has_one_quota_however_it_is_spelled(
    cluster: Cluster, controller: Controller
) -> None:
    mapped, plain = (
        alteration({"ip": "::ffff:1.2.3.4"}, connection_creation_rate=7),
        {"ip": "1.2.3.4"},
    )
    (result,) = await controller.alter_client_quotas([mapped])
    assert (result.error, result.entity) == (0, mapped.entity)
    assert await stored(cluster, "/config/ips/1.2.3.4") == {"connection_creation_rate": "7"}
    results = await controller.alter_client_quotas(
        [alteration(plain, connection_creation_rate=8), mapped]
    )
    assert [result.error for result in results] == [0, ErrorCode.INVALID_REQUEST]
    await alter(controller, mapped.entity.as_dict(), connection_creation_rate=None)
    assert cluster.brokers[1].client_quotas == {ClientQuotaEntity.of(plain): {}}


@pytest.mark.parametrize("name", ["myhost", "::ffff:1.2.3.4"])
async def test_a_stored_quota_of_a_host_name_or_another_spelling_can_be_removed(
    cluster: Cluster, name: str
) -> None:
    path = paths.client_quotas(ClientQuotaEntity.of({"ip": name}))
    node = Create(path, config_node(connection_creation_rate="5"))
    await cluster.sessions[1].multi([node])
    after = await cluster.crash()
    await alter(await after.start(1), {"ip": name}, connection_creation_rate=None)
    assert await stored(after, path) is None


async def test_a_quota_is_set_for_addresses_only(controller: Controller) -> None:
    wanted = alteration({"ip": "myhost"}, connection_creation_rate=5)
    (result,) = await controller.alter_client_quotas([wanted])
    assert result.message == "myhost is not a valid IP or resolvable host."


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
    assert throttle_ms.pop() == 14_000
    (deleted,) = await limited.delete_topics([TopicReference("t0")], mutator=MUTATOR)
    assert deleted.error is EXCEEDED
    (grown,) = await limited.create_partitions(
        [NewPartitions(topic="t0", count=6)], mutator=MUTATOR
    )
    assert grown.error is EXCEEDED
    (other,) = await limited.delete_topics([TopicReference("t0")], mutator=None)
    assert other.error is ErrorCode.NONE
    cluster.clock.advance(14)
    (grown,) = await limited.create_partitions(
        [NewPartitions(topic="t1", count=21)], mutator=MUTATOR
    )
    assert (grown.error, grown.throttle_ms) == (0, 0)


async def test_the_time_of_day_does_not_matter(cluster: Cluster, limited: Controller) -> None:
    await limited.create_topics(topics(11), mutator=MUTATOR)
    cluster.clock.wall_ms -= 3_600_000
    cluster.clock.advance(1)
    late = NewTopic(name="late", num_partitions=1, replication_factor=1)
    (created,) = await limited.create_topics([late], mutator=MUTATOR)
    assert (created.error, created.throttle_ms) == (0, 0)


async def test_the_largest_quota_is_as_good_as_none(controller: Controller) -> None:
    await alter(controller, {"user": "u"}, controller_mutation_rate=sys.float_info.max)
    created = await controller.create_topics(topics(100, 100), mutator=MUTATOR)
    assert [(result.error, result.throttle_ms) for result in created] == [(0, 0)] * 2


async def test_a_client_that_does_not_know_the_error_has_to_wait(limited: Controller) -> None:
    created = await limited.create_topics(topics(21, 10), mutator=OLD_CLIENT)
    assert [result.error for result in created] == [0, 0]
    assert created[0].throttle_ms == 20_000


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

"""Brokers of one cluster that ask each other: whatever broker a client turns to, the controller
decides.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from tests.support.requests import error_names, request

from moldau.coordination import paths
from moldau.machine import Machine
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import ConnectionLostError
from moldau.testing.simulation import SimulatedBroker, SimulatedCluster, Simulation
from moldau.wire.api import ApiKey
from moldau.wire.private import PrivateApi, encode_request

SETTINGS = {"default.replication.factor": 1, "min.insync.replicas": 1}

SOON = dt.timedelta(seconds=5)

Story = Callable[[SimulatedCluster, Machine], Coroutine[Any, Any, None]]


def run(story: Story, settings: Mapping[str, object] | None = None) -> None:
    simulation = Simulation(1)
    simulation.loop.time_limit = 600
    cluster = SimulatedCluster(simulation, settings={**SETTINGS, **(settings or {})})

    async def live() -> None:
        await cluster.start()
        client = simulation.node("client")
        machine = client.boot()
        await client.run(story(cluster, machine))

    with simulation:
        simulation.run(live())


async def connect(machine: Machine, broker: SimulatedBroker) -> BrokerConnection:
    host, _, port = broker.bootstrap_servers.partition(":")
    return await BrokerConnection.open(
        machine, host, int(port), client_id="client", connect_timeout=5, request_timeout=60
    )


async def others(cluster: SimulatedCluster) -> list[SimulatedBroker]:
    """Returns the brokers that are not in charge."""
    in_charge = await cluster.controller()
    return [each for each in cluster.brokers.values() if each is not in_charge]


async def create_topic(connection: BrokerConnection, name: str, **timeout: float) -> list[str]:
    topic = {"name": name, "num_partitions": 3, "replication_factor": 1}
    answer = await connection.request(
        ApiKey.CREATE_TOPICS,
        request(
            "create_topics",
            7,
            topics=[{**topic, "assignments": [], "configs": []}],
            timeout=dt.timedelta(**(timeout or {"seconds": 5})),
        ),
    )
    return error_names(answer)


def test_a_topic_is_created_through_a_broker_that_is_not_in_charge() -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        for index, broker in enumerate(await others(cluster)):
            connection = await connect(machine, broker)
            assert await create_topic(connection, f"t{index}") == ["NONE"]
            await connection.close()
        await cluster.converged()
        assert set((await cluster.stored()).topics) == {"t0", "t1"}

    run(story)


ADMIN_REQUESTS: dict[str, tuple[ApiKey, Any, list[str]]] = {
    "grow a topic": (
        ApiKey.CREATE_PARTITIONS,
        request(
            "create_partitions",
            3,
            topics=[{"name": "t", "count": 5, "assignments": None}],
            timeout=SOON,
            validate_only=False,
        ),
        ["NONE"],
    ),
    "alter a topic's settings": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        request(
            "incremental_alter_configs",
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "60000"}],
                }
            ],
            validate_only=False,
        ),
        ["NONE"],
    ),
    "refuse a topic's settings": (
        ApiKey.ALTER_CONFIGS,
        request(
            "alter_configs",
            2,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "configs": [{"name": "no.such", "value": "1"}],
                }
            ],
            validate_only=False,
        ),
        ["INVALID_CONFIG"],
    ),
    "alter quotas": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        request(
            "alter_client_quotas",
            1,
            entries=[
                {
                    "entity": [{"entity_type": "client-id", "entity_name": "c"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
                }
            ],
            validate_only=False,
        ),
        ["NONE"],
    ),
    "elect leaders": (
        ApiKey.ELECT_LEADERS,
        request(
            "elect_leaders",
            2,
            election_type=0,
            topic_partitions=[{"topic": "t", "partitions": [0]}],
            timeout=SOON,
        ),
        ["NONE", "ELECTION_NOT_NEEDED"],
    ),
    "move replicas nowhere": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        request(
            "alter_partition_reassignments",
            1,
            timeout=SOON,
            allow_replication_factor_change=True,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}],
        ),
        ["NONE", "NO_REASSIGNMENT_IN_PROGRESS"],
    ),
    "list what moves": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        request("list_partition_reassignments", 0, timeout=SOON, topics=None),
        ["NONE"],
    ),
    "get a producer id": (
        ApiKey.INIT_PRODUCER_ID,
        request(
            "init_producer_id",
            5,
            transactional_id=None,
            transaction_timeout=SOON,
            producer_id=-1,
            producer_epoch=-1,
        ),
        ["NONE"],
    ),
    "delete a topic": (
        ApiKey.DELETE_TOPICS,
        request("delete_topics", 6, topics=[{"name": "t", "topic_id": None}], timeout=SOON),
        ["NONE"],
    ),
}


def test_whatever_the_controller_decides_can_be_asked_of_any_broker() -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        for broker in await others(cluster):
            connection = await connect(machine, broker)
            assert await create_topic(connection, "t") == ["NONE"]
            await cluster.converged()
            answers = {
                name: error_names(await connection.request(api, message))
                for name, (api, message, _) in ADMIN_REQUESTS.items()
            }
            assert answers == {name: codes for name, (_, _, codes) in ADMIN_REQUESTS.items()}
            await connection.close()
            await cluster.converged()
            assert not (await cluster.stored()).topics

    run(story)


def test_a_request_has_the_time_that_its_client_gives_it() -> None:
    """While nobody is in charge; and what was given up is not done later."""

    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        in_charge = await cluster.controller()
        assert in_charge is not None
        connection = await connect(machine, (await others(cluster))[0])
        in_charge.kill()
        before = machine.clock.monotonic()
        assert await create_topic(connection, "hasty", milliseconds=1500) in (
            ["NOT_CONTROLLER"],
            ["REQUEST_TIMED_OUT"],
        )
        assert machine.clock.monotonic() - before < 1.6
        # A new one is elected when the session of the old one is over.
        assert await create_topic(connection, "patient", seconds=30) == ["NONE"]
        assert set((await cluster.stored()).topics) == {"patient"}

    run(story)


def test_a_controller_that_is_paused_and_replaced_holds_nobody_up() -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        in_charge = await cluster.controller()
        assert in_charge is not None
        connection = await connect(machine, (await others(cluster))[0])
        assert await create_topic(connection, "before") == ["NONE"]
        in_charge.node.pause(30)
        before = machine.clock.monotonic()
        assert await create_topic(connection, "t", seconds=25) == ["REQUEST_TIMED_OUT"]
        assert machine.clock.monotonic() - before < 8  # a session, and a little
        assert await create_topic(connection, "t") in (["NONE"], ["TOPIC_ALREADY_EXISTS"])
        await connection.close()
        await asyncio.sleep(30)
        await cluster.converged()
        assert set((await cluster.stored()).topics) == {"before", "t"}

    run(story)


def test_a_brokers_own_listeners_change_through_itself_though_another_decides() -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        broker = (await others(cluster))[0]
        host, node_id = broker.node.name, broker.node.name.rpartition("-")[2]
        connection = await connect(machine, broker)
        answer = await connection.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            request(
                "incremental_alter_configs",
                1,
                resources=[
                    {
                        "resource_type": 4,
                        "resource_name": node_id,
                        "configs": [
                            {
                                "name": "listener.security.protocol.map",
                                "config_operation": 0,
                                "value": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
                            },
                            {
                                "name": "listeners",
                                "config_operation": 0,
                                "value": f"PLAINTEXT://{host}:9092,SECOND://{host}:9192",
                            },
                        ],
                    }
                ],
                validate_only=False,
            ),
        )
        assert error_names(answer) == ["NONE"]
        second = await BrokerConnection.open(
            machine, host, 9192, client_id="client", connect_timeout=5, request_timeout=10
        )
        await second.close()
        await cluster.all_in()

    run(story)


async def ask_privately(connection: BrokerConnection, api: PrivateApi, body: object) -> bytes:
    return await connection.exchange_unadvertised(
        0,
        lambda _version, correlation_id, client_id: [
            encode_request(api, correlation_id, client_id, body)
        ],
        lambda _version, frame: bytes(frame),
    )


@pytest.mark.parametrize("api", list(PrivateApi))
def test_who_is_no_broker_learns_nothing_of_private_apis(api: PrivateApi) -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        connection = await connect(machine, cluster[1])
        with pytest.raises(ConnectionLostError):
            await ask_privately(connection, api, {})

    run(story)


def test_brokers_can_have_a_listener_of_their_own_and_log_in_nowhere_else() -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092,INTERNAL://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "internal",
    }
    claim = b"n,,n=cluster/2/1/1,r=nonce"

    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        outside = await connect(machine, cluster[1])
        assert await create_topic(outside, "t") == ["NONE"]
        with pytest.raises(ConnectionLostError):
            await ask_privately(outside, PrivateApi.AUTHENTICATE_BROKER, claim)
        inside = await BrokerConnection.open(
            machine, "broker-1", 9093, client_id="client", connect_timeout=5, request_timeout=10
        )
        answer = await ask_privately(inside, PrivateApi.AUTHENTICATE_BROKER, claim)
        assert b"This broker belongs to cluster" in answer

    run(story, settings)


@pytest.mark.parametrize("secret", [{"cluster.secret": "told"}, {"cluster.secret.file": "/secret"}])
def test_a_secret_that_is_configured_is_kept_out_of_the_store(secret: dict[str, str]) -> None:
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, settings={**SETTINGS, **secret})
    for broker in cluster.brokers.values():
        broker.node.disk.write("/secret", b"in a file\n")

    async def live() -> None:
        await cluster.start()
        await cluster.all_in()
        store = cluster.ensemble.store.session()
        assert await store.exists(paths.CLUSTER_SECRET) is None
        await store.close()

    with simulation:
        simulation.run(live())

"""Brokers of one cluster that ask each other: whatever broker a client turns to, the controller
decides.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.requests import error_names, request

from moldau.machine import Machine
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import ConnectionLostError
from moldau.testing.simulation import SimulatedBroker, SimulatedCluster, Simulation
from moldau.wire.api import ApiKey
from moldau.wire.private import PrivateApi, encode_request

SETTINGS = {"default.replication.factor": 1, "min.insync.replicas": 1}

Story = Callable[[SimulatedCluster, Machine], Coroutine[Any, Any, None]]


def run(story: Story, seed: int = 1) -> None:
    simulation = Simulation(seed)
    simulation.loop.time_limit = 600
    cluster = SimulatedCluster(simulation, settings=SETTINGS)

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
        machine, host, int(port), client_id="client", connect_timeout=5, request_timeout=10
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


@pytest.mark.parametrize("api", list(PrivateApi))
def test_who_is_no_broker_learns_nothing_of_private_apis(api: PrivateApi) -> None:
    async def story(cluster: SimulatedCluster, machine: Machine) -> None:
        await cluster.all_in()
        connection = await connect(machine, cluster[1])
        with pytest.raises(ConnectionLostError):
            await connection.exchange_unadvertised(
                0,
                lambda _version, correlation_id, client_id: [
                    encode_request(api, correlation_id, client_id, {})
                ],
                lambda _version, frame: bytes(frame),
            )

    run(story)

"""Broker processes that ask each other, and one that is not accepted among them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from tests.support.wire import WireClient, one_batch

from moldau.errors import ErrorCode
from moldau.security.scram import Scram
from moldau.testing.broker import BrokerStartError, MoldauProcess
from moldau.testing.cluster import MoldauCluster
from moldau.wire.api import ApiKey
from moldau.wire.private import PrivateApi, encode_request


@pytest.fixture(scope="module")
def moldau_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauCluster]:
    secret = tmp_path_factory.mktemp("secret") / "cluster.secret"
    secret.write_text("only for brokers\n")
    secret.chmod(0o600)
    overrides = {"cluster.secret.file": secret}
    with MoldauCluster(tmp_path_factory.mktemp("cluster"), overrides=overrides) as cluster:
        yield cluster


async def test_every_broker_creates_and_deletes_topics(moldau_cluster: MoldauCluster) -> None:
    for node, broker in moldau_cluster.brokers.items():
        async with await WireClient.connect(broker.address) as client:
            await client.create_topic(f"t{node}")
            answer = await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": f"t{node}"}])
            assert [topic.error_code for topic in answer.responses] == [0]


async def test_producer_ids_of_different_brokers_are_different(
    moldau_cluster: MoldauCluster,
) -> None:
    given = set()
    for broker in moldau_cluster.brokers.values():
        async with await WireClient.connect(broker.address) as client:
            answer = await client.call(
                ApiKey.INIT_PRODUCER_ID,
                transactional_id=None,
                producer_id=-1,
                producer_epoch=-1,
            )
            assert answer.error_code == 0
            given.add(answer.producer_id)
    assert len(given) == len(moldau_cluster.brokers)


STRANGERS = 100


async def test_strangers_on_the_listener_between_brokers_hold_nobody_up(
    moldau_cluster: MoldauCluster,
) -> None:
    """Logins that are begun and not ended, requests of a size that never comes, and what only
    brokers may ask: all of it on the one listener that brokers and clients have here.
    """
    address = moldau_cluster.brokers[1].address
    async with AsyncExitStack() as stack:

        async def stranger() -> WireClient:
            return await stack.enter_async_context(await WireClient.connect(address))

        client = await stranger()
        cluster_id = (await client.call(ApiKey.METADATA, topics=[])).cluster_id
        for number in range(STRANGERS):
            guess = Scram("SCRAM-SHA-256", f"{cluster_id}/2/1/1", "guess", f"nonce{number}")
            half = await stranger()
            half.write(_private(PrivateApi.AUTHENTICATE_BROKER, guess.respond(b"")))
            await half.read_frame()
            slow = await stranger()
            slow.write(_private(PrivateApi.BROKER_UPDATE, bytes(1 << 20))[: 1 << 18])
        for api in (PrivateApi.BROKER_UPDATE, PrivateApi.CONTROLLER_REQUEST):
            forger = await stranger()
            forger.write(_private(api, None))
            assert await forger.wait_closed_by_peer() == b""
        moldau_cluster.create_topic("undisturbed", 3)
        for node, broker in moldau_cluster.brokers.items():
            async with await WireClient.connect(broker.address) as leader:
                partition = await _partition_led_by(node, leader, "undisturbed")
                told = await leader.produce("undisturbed", one_batch(b"v"), partition=partition)
                assert told.error_code == ErrorCode.NONE
                read = await leader.fetch_all(
                    {"undisturbed": {partition: 0}}, replica_id=node % 3 + 1
                )
                assert read.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _partition_led_by(node: int, client: WireClient, topic: str) -> int:
    """Returns one, as soon as the broker knows that it leads one."""
    async with asyncio.timeout(60):
        while True:
            described = await client.call(ApiKey.METADATA, topics=[{"name": topic}])
            for state in described.topics[0].partitions:
                if state.leader_id == node:
                    return int(state.partition_index)
            await asyncio.sleep(0.05)


def _private(api: PrivateApi, body: object) -> bytes:
    return encode_request(api, 1, "broker-2-stranger", body)


def test_a_broker_with_another_secret_does_not_start(
    moldau_cluster: MoldauCluster, request: pytest.FixtureRequest
) -> None:
    """It might win the controller's office, and nobody would take its word."""
    stranger = MoldauProcess(
        moldau_cluster.directory / "stranger",
        overrides={
            "node.id": 4,
            "zookeeper.connect": moldau_cluster.coordination.address,
            "cluster.secret": "guessed",
        },
    )
    request.addfinalizer(stranger.kill)
    with pytest.raises(BrokerStartError):
        stranger.start()
    assert "the brokers of this cluster have another secret" in stranger.logs()

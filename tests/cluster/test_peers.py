"""Broker processes that ask each other, and one that is not accepted among them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.wire import WireClient

from moldau.testing.broker import BrokerStartError, MoldauProcess
from moldau.testing.cluster import MoldauCluster
from moldau.wire.api import ApiKey


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

"""A client's view of a cluster that changes under it; the brokers are scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_broker import silent

from moldau.client.cluster import Cluster
from moldau.client.errors import NoBrokersError, TimedOutError
from moldau.client.settings import CommonSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node, TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.headers import read_request_header
from moldau.wire.make import make
from moldau.wire.messages import encode_response


class World:
    """Brokers, by node id, and what they say about themselves."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.leader = 0
        self.leader_epoch = 0
        self.error = ErrorCode.NONE
        self.asked: list[int] = []
        """The brokers that were asked for metadata, in order."""
        self.connections: dict[int, list[asyncio.StreamWriter]] = {}

    @asynccontextmanager
    async def broker(self, node: int) -> AsyncIterator[int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections.setdefault(node, []).append(writer)
            try:
                while True:
                    size = int.from_bytes(await reader.readexactly(4))
                    header, _ = read_request_header(memoryview(await reader.readexactly(size)))
                    said = self._answer(node, header.api_key, header.api_version)
                    writer.write(
                        encode_response(
                            ApiKey(header.api_key),
                            header.api_version,
                            header.correlation_id,
                            said,
                        )
                    )
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        port = self.ports.get(node, 0)
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        self.ports[node] = server.sockets[0].getsockname()[1]
        try:
            yield self.ports[node]
        finally:
            server.close()
            for writer in self.connections.pop(node, []):
                writer.transport.abort()

    def _answer(self, node: int, api: int, _version: int) -> Any:
        if api == ApiKey.API_VERSIONS:
            keys = (
                make(ApiVersion, api_key=int(ApiKey.API_VERSIONS), min_version=0, max_version=4),
                make(ApiVersion, api_key=int(ApiKey.METADATA), min_version=0, max_version=13),
            )
            return make(ApiVersionsResponse, error_code=0, api_keys=keys, throttle_time=0)
        self.asked.append(node)
        partition = make(
            MetadataResponsePartition,
            error_code=0,
            partition_index=0,
            leader_id=self.leader,
            leader_epoch=self.leader_epoch,
            replica_nodes=tuple(self.ports),
            isr_nodes=tuple(self.ports),
            offline_replicas=(),
        )
        error, self.error = self.error, ErrorCode.NONE
        return make(
            MetadataResponse,
            throttle_time=0,
            brokers=tuple(
                make(MetadataResponseBroker, node_id=n, host="127.0.0.1", port=port, rack=None)
                for n, port in self.ports.items()
            ),
            cluster_id="c",
            controller_id=0,
            topics=(
                make(
                    MetadataResponseTopic,
                    error_code=0,
                    name="t",
                    topic_id=UUID(int=7),
                    is_internal=False,
                    partitions=(partition,),
                ),
            ),
            error_code=int(error),
        )


@pytest.fixture
def world() -> World:
    return World()


@asynccontextmanager
async def cluster_of(world: World, *nodes: int, **settings: Any) -> AsyncIterator[Cluster]:
    servers = [f"127.0.0.1:{world.ports[node]}" for node in nodes]
    quick = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5, "retry_backoff_ms": 1}
    cluster = Cluster(CommonSettings(bootstrap_servers=servers, **{**quick, **settings}))
    try:
        yield cluster
    finally:
        await cluster.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def test_a_bootstrap_server_that_says_nothing_is_passed_over(world: World) -> None:
    with silent() as address:
        world.ports[9] = int(address.rpartition(":")[2])
        setup = {
            "socket_connection_setup_timeout_ms": 200,
            "socket_connection_setup_timeout_max_ms": 200,
        }
        async with world.broker(1), cluster_of(world, 9, 1, **setup) as cluster:
            await cluster.start()
            assert 1 in cluster.metadata.nodes
        async with cluster_of(world, 9, **setup) as alone:
            with pytest.raises(TimedOutError, match=f"{address} did not answer"):
                await alone.start()


async def test_any_bootstrap_server_will_do(world: World) -> None:
    async with world.broker(1):
        pass  # it was there once
    async with world.broker(2), cluster_of(world, 1, 2) as cluster:
        await cluster.start()
        assert set(cluster.metadata.nodes) == {1, 2}


async def test_other_brokers_are_asked_when_one_is_lost(world: World) -> None:
    async with world.broker(2), world.broker(1), cluster_of(world, 1) as cluster:
        await cluster.start()
        for writer in world.connections.pop(1):
            writer.transport.abort()
        world.ports[1], real = 1, world.ports[1]  # nobody listens there
        await cluster.refresh(())
        world.ports[1] = real
        assert world.asked[0] == 1


async def test_brokers_that_restart_are_found_again(world: World) -> None:
    async with world.broker(1), cluster_of(world, 1) as cluster:
        await cluster.start()
    async with cluster_of(world, 1) as cluster:
        async with world.broker(1):
            await cluster.start()
        with pytest.raises(NoBrokersError, match="Connection refused"):
            await cluster.refresh(())
        async with world.broker(1):
            assert set((await cluster.refresh(())).nodes) == {1}


async def test_old_words_about_a_leader_are_not_believed(world: World) -> None:
    where = TopicPartition("t", 0)
    async with world.broker(1), world.broker(2), cluster_of(world, 1) as cluster:
        world.leader, world.leader_epoch = 2, 5
        assert await cluster.leader(where) == (2, 5)
        world.leader, world.leader_epoch = 1, 4
        await cluster.refresh(["t"])
        assert await cluster.leader(where) == (2, 5)
        assert not cluster.learn_leader(where, 1, 5, [])
        heard: list[Any] = []
        cluster.on_update.append(heard.append)
        assert cluster.learn_leader(where, 3, 6, [Node(3, "127.0.0.1", 1)])
        assert await cluster.leader(where) == (3, 6)
        assert heard == [cluster.metadata]
        assert not cluster.learn_leader(TopicPartition("other", 0), 3, 6, [])


async def test_metadata_is_asked_for_anew_when_it_is_old(world: World) -> None:
    async with world.broker(1), cluster_of(world, 1, metadata_max_age_ms=1) as cluster:
        await cluster.topic("t")
        world.leader, world.leader_epoch = 1, 9
        await until(lambda: cluster.metadata.topics["t"].partitions[0].leader_epoch == 9)


async def test_an_update_is_repeated_until_it_succeeds(world: World) -> None:
    async with cluster_of_later(world) as cluster:
        cluster.request_update("t")
        cluster.request_update("t")
        await asyncio.sleep(0.01)
        async with world.broker(1):
            await until(lambda: "t" in cluster.metadata.topics)


@asynccontextmanager
async def cluster_of_later(world: World) -> AsyncIterator[Cluster]:
    async with world.broker(1):
        pass
    async with cluster_of(world, 1) as cluster:
        yield cluster


async def test_a_cluster_may_send_its_clients_back_to_the_start(world: World) -> None:
    async with world.broker(1), world.broker(2), cluster_of(world, 1) as cluster:
        await cluster.start()
        world.error = ErrorCode.REBOOTSTRAP_REQUIRED
        with pytest.raises(KafkaError, match="REBOOTSTRAP_REQUIRED"):
            await cluster.refresh(())
        assert cluster.metadata.nodes == {}
        await cluster.refresh(())
        assert set(cluster.metadata.nodes) == {1, 2}


async def test_without_rebootstrapping_only_known_brokers_are_tried(world: World) -> None:
    settings = {"metadata_recovery_strategy": "none"}
    async with world.broker(1), cluster_of(world, 1, **settings) as cluster:
        await cluster.start()
        asked_before = len(world.asked)
        cluster.metadata = type(cluster.metadata)(nodes={9: Node(9, "127.0.0.1", 1)})
        await cluster._connections.drop_all()
        with pytest.raises(NoBrokersError, match=r"127\.0\.0\.1:1: Connection refused$"):
            await cluster.refresh(())
        assert len(world.asked) == asked_before


async def test_idle_connections_are_closed_and_made_anew(world: World) -> None:
    async with world.broker(1), cluster_of(world, 1, connections_max_idle_ms=20) as cluster:
        await cluster.start()
        first = await cluster.connection(1)
        await until(lambda: first.closed)
        second = await cluster.connection(1)
        assert second is not first
        assert not second.closed


async def test_lanes_have_connections_of_their_own(world: World) -> None:
    async with world.broker(1), cluster_of(world, 1) as cluster:
        await cluster.start()
        main, fetch = await cluster.connection(1), await cluster.connection(1, "fetch")
        assert main is not fetch
        assert await cluster.connection(1) is main
        assert cluster.open_connection(1, "fetch") is fetch
        assert cluster.open_connection(1, "produce") is None
        with pytest.raises(NoBrokersError, match="Broker 7 is not part of the cluster"):
            await cluster.connection(7)

"""Logins on a connection: every version of the requests, and what waits while one is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationError, ConnectionLostError, UnsupportedApiError
from moldau.client.security import security_of
from moldau.client.settings import CommonSettings
from moldau.errors import ErrorCode
from moldau.machine.real import this_machine
from moldau.net.broker_connection import BrokerConnection
from moldau.wire.api import ApiKey
from moldau.wire.headers import read_request_header
from moldau.wire.make import make
from moldau.wire.messages import encode_response

VERSIONS = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.METADATA: (0, 13),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}
SETTINGS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hush-hush",
}


class Broker:
    """Answers logins as it is told, and notes what it is asked."""

    def __init__(self) -> None:
        self.versions = dict(VERSIONS)
        self.asked: list[ApiKey] = []
        self.used: dict[ApiKey, int] = {}
        self.lifetimes = [0]
        """Milliseconds, for one login after the other."""
        self.refusals: list[ErrorCode] = []
        self.renewing = asyncio.Event()
        self.may_renew = asyncio.Event()
        self.port = 0

    async def answer(self, api: ApiKey) -> Any:
        self.asked.append(api)
        if api is ApiKey.API_VERSIONS:
            return make(
                ApiVersionsResponse,
                error_code=ErrorCode.NONE,
                api_keys=tuple(
                    make(ApiVersion, api_key=int(key), min_version=low, max_version=high)
                    for key, (low, high) in self.versions.items()
                ),
                throttle_time=0,
            )
        if api is ApiKey.SASL_HANDSHAKE:
            if self.asked.count(api) > 1:
                self.renewing.set()
                await self.may_renew.wait()
            return make(SaslHandshakeResponse, error_code=ErrorCode.NONE, mechanisms=("PLAIN",))
        if api is ApiKey.SASL_AUTHENTICATE:
            code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
            return make(
                SaslAuthenticateResponse,
                error_code=code,
                error_message="go away" if code else None,
                auth_bytes=b"",
                session_lifetime=timedelta(milliseconds=self.lifetimes.pop(0)),
            )
        if api is ApiKey.METADATA:
            return None
        return make(
            DescribeClusterResponse,
            throttle_time=0,
            error_code=ErrorCode.NONE,
            cluster_id="c",
            brokers=(),
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                header, _ = read_request_header(memoryview(await reader.readexactly(size)))
                api = ApiKey(header.api_key)
                self.used[api] = header.api_version
                said = await self.answer(api)
                if said is None:
                    break
                writer.write(encode_response(api, header.api_version, header.correlation_id, said))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        broker.port = server.sockets[0].getsockname()[1]
        yield broker
        broker.may_renew.set()


async def connect(broker: Broker) -> BrokerConnection:
    settings = CommonSettings({**SETTINGS, "bootstrap.servers": f"127.0.0.1:{broker.port}"})
    return await BrokerConnection.open(
        this_machine(),
        "127.0.0.1",
        broker.port,
        client_id="test",
        connect_timeout=60.0,
        request_timeout=60.0,
        security=security_of(settings, this_machine()),
    )


def describe(connection: BrokerConnection) -> asyncio.Task[Any]:
    request = make(
        DescribeClusterRequest,
        include_cluster_authorized_operations=False,
        include_fenced_brokers=False,
    )
    return asyncio.create_task(connection.request(ApiKey.DESCRIBE_CLUSTER, request))


@pytest.mark.parametrize("newest", [0, 1, 2])
async def test_every_version_of_the_login(newest: int) -> None:
    broker = Broker()
    broker.versions[ApiKey.SASL_AUTHENTICATE] = (0, newest)
    async with running(broker):
        connection = await connect(broker)
        await describe(connection)
        await connection.close()
    assert broker.used[ApiKey.SASL_AUTHENTICATE] == newest
    assert broker.used[ApiKey.SASL_HANDSHAKE] == 1
    assert broker.asked == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
    ]


async def test_a_broker_from_before_these_requests() -> None:
    broker = Broker()
    del broker.versions[ApiKey.SASL_AUTHENTICATE]
    async with running(broker):
        with pytest.raises(UnsupportedApiError, match="SASL_AUTHENTICATE"):
            await connect(broker)


async def test_a_refusal_has_the_brokers_words() -> None:
    broker = Broker()
    broker.refusals = [ErrorCode.SASL_AUTHENTICATION_FAILED]
    async with running(broker):
        with pytest.raises(AuthenticationError, match="refuses the login: go away"):
            await connect(broker)


async def test_requests_wait_while_a_login_is_renewed_and_go_out_in_order() -> None:
    broker = Broker()
    broker.lifetimes = [1000, 0]
    async with running(broker):
        connection = await connect(broker)
        async with asyncio.timeout(60):
            await broker.renewing.wait()
            waiting = [describe(connection) for _ in range(3)]
            await asyncio.sleep(0)
            congested = connection.congested
            drained = asyncio.create_task(connection.drain())
            broker.may_renew.set()
            await asyncio.gather(*waiting, drained)
        assert (congested, connection.congested) == (True, False)
        await connection.close()
    assert broker.asked[4:] == [
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        *[ApiKey.DESCRIBE_CLUSTER] * 3,
    ]


async def test_a_login_that_cannot_be_renewed_ends_the_connection() -> None:
    broker = Broker()
    broker.lifetimes = [1000, 0]
    async with running(broker):
        connection = await connect(broker)
        broker.refusals = [ErrorCode.SASL_AUTHENTICATION_FAILED]
        async with asyncio.timeout(60):
            await broker.renewing.wait()
            waiting = describe(connection)
            await asyncio.sleep(0)
            broker.may_renew.set()
            with pytest.raises(ConnectionLostError):
                await waiting
            await connection.ended
    assert ApiKey.DESCRIBE_CLUSTER not in broker.asked


async def test_a_listener_that_hangs_up_on_clients_without_a_login_is_not_asked_for_ever() -> None:
    broker = Broker()
    async with running(broker):
        cluster = Cluster(CommonSettings(bootstrap_servers=f"127.0.0.1:{broker.port}"))
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionLostError, match="wants a login") as caught:
                await cluster.start()
        await cluster.close()
    assert caught.value.retriable
    assert broker.asked.count(ApiKey.METADATA) == 3

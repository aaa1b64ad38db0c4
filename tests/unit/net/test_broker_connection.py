"""Connecting, agreeing on versions, and what is said when the other side is no broker for us."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.metadata.v13.request import MetadataRequest

from moldau.client.errors import (
    ConnectionLostError,
    SslAuthenticationError,
    TimedOutError,
    UnsupportedApiError,
)
from moldau.errors import ErrorCode
from moldau.machine.real import this_machine
from moldau.net.broker_connection import BrokerConnection
from moldau.wire.api import ApiKey
from moldau.wire.errors import DecodeError
from moldau.wire.headers import read_request_header
from moldau.wire.make import make
from moldau.wire.messages import encode_request, encode_response

Answer = Callable[[int, int, int], bytes | None]
"""API key, version and correlation id of a request → the bytes to answer; None hangs up."""


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """A server that answers each request frame with what ``answer`` says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                header, _ = read_request_header(memoryview(await reader.readexactly(size)))
                said = answer(header.api_key, header.api_version, header.correlation_id)
                if said is None:
                    break
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def versions(
    version: int, correlation_id: int, ranges: dict[ApiKey, tuple[int, int]], error: int = 0
) -> bytes:
    return encode_response(
        ApiKey.API_VERSIONS,
        version,
        correlation_id,
        make(
            ApiVersionsResponse,
            error_code=error,
            api_keys=tuple(
                make(ApiVersion, api_key=int(api), min_version=low, max_version=high)
                for api, (low, high) in ranges.items()
            ),
            throttle_time=0,
        ),
    )


def connect(port: int, request_timeout: float = 60.0) -> Awaitable[BrokerConnection]:
    return BrokerConnection.open(
        this_machine(),
        "127.0.0.1",
        port,
        client_id="test",
        connect_timeout=60.0,
        request_timeout=request_timeout,
    )


RANGES = {ApiKey.API_VERSIONS: (0, 4), ApiKey.DESCRIBE_CLUSTER: (0, 0), ApiKey.METADATA: (0, 99)}


async def test_the_newest_common_version_is_used() -> None:
    asked: list[tuple[int, int]] = []

    def answer(api: int, version: int, correlation_id: int) -> bytes:
        asked.append((api, version))
        if api == ApiKey.API_VERSIONS:
            return versions(version, correlation_id, RANGES)
        response = make(
            DescribeClusterResponse,
            throttle_time=0,
            error_code=ErrorCode.NONE,
            cluster_id="old cluster",
            brokers=(),
        )
        return encode_response(ApiKey.DESCRIBE_CLUSTER, version, correlation_id, response)

    async with serving(answer) as port:
        connection = await connect(port)
        request = make(
            DescribeClusterRequest,
            include_cluster_authorized_operations=False,
            include_fenced_brokers=False,
        )
        described = await connection.request(ApiKey.DESCRIBE_CLUSTER, request)
        assert described.cluster_id == "old cluster"
        assert connection.version_of(ApiKey.METADATA) == 13
        with pytest.raises(UnsupportedApiError, match="does not serve PRODUCE"):
            connection.version_of(ApiKey.PRODUCE)
        await connection.close()
    assert asked == [(ApiKey.API_VERSIONS, 3), (ApiKey.DESCRIBE_CLUSTER, 0)]


async def test_a_broker_that_does_not_know_our_first_request_is_asked_in_its_own_version() -> None:
    asked: list[int] = []

    def answer(_api: int, version: int, correlation_id: int) -> bytes:
        asked.append(version)
        if version > 1:
            refused = int(ErrorCode.UNSUPPORTED_VERSION)
            return versions(0, correlation_id, {ApiKey.API_VERSIONS: (0, 1)}, refused)
        return versions(version, correlation_id, {ApiKey.PRODUCE: (0, 2), ApiKey.FETCH: (4, 11)})

    async with serving(answer) as port:
        connection = await connect(port)
        assert connection.version_of(ApiKey.FETCH) == 11
        with pytest.raises(UnsupportedApiError, match="speaks PRODUCE versions 0–2"):
            connection.version_of(ApiKey.PRODUCE)
        await connection.close()
    assert asked == [3, 1]


async def test_a_server_that_hangs_up_may_be_stopping() -> None:
    async with serving(lambda *_: None) as port:
        with pytest.raises(ConnectionLostError, match=r"hung up .* stops, or wants TLS") as caught:
            await connect(port)
    assert caught.value.retriable


async def test_a_server_that_answers_something_else_is_given_up() -> None:
    async with serving(lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(ConnectionLostError, match="is not a Kafka listener: "):
            await connect(port)


async def test_a_listener_with_tls_is_recognised_by_its_alert() -> None:
    async with serving(lambda *_: b"\x15\x03\x01\x00\x02\x02\x16") as port:
        with pytest.raises(SslAuthenticationError, match=r"security\.protocol=SSL") as caught:
            await connect(port)
    assert not caught.value.retriable

    def nonsense(_api: int, _version: int, correlation_id: int) -> bytes:
        return (8).to_bytes(4) + correlation_id.to_bytes(4) + b"\0\0\xff\xff"

    async with serving(nonsense) as port:
        with pytest.raises(ConnectionLostError, match="makes no sense"):
            await connect(port)


async def test_no_answer_in_time_is_said_and_closes_the_connection() -> None:
    def answer(api: int, version: int, correlation_id: int) -> bytes:
        return versions(version, correlation_id, RANGES) if api == ApiKey.API_VERSIONS else b""

    async with serving(answer) as port:
        connection = await connect(port)
        request = make(
            DescribeClusterRequest,
            include_cluster_authorized_operations=False,
            include_fenced_brokers=False,
        )
        with pytest.raises(TimedOutError, match="did not answer in time"):
            await connection.request(ApiKey.DESCRIBE_CLUSTER, request, within=0.05)
        assert connection.closed
        with pytest.raises(TimedOutError):
            await connection.request(ApiKey.DESCRIBE_CLUSTER, request)
        await connection.close()


async def test_an_answer_that_a_codec_cannot_read_ends_the_connection() -> None:
    def answer(api: int, version: int, correlation_id: int) -> bytes:
        if api == ApiKey.API_VERSIONS:
            return versions(version, correlation_id, RANGES)
        return (5).to_bytes(4) + correlation_id.to_bytes(4) + b"?"

    def decode(_version: int, frame: memoryview) -> bytes:
        raise DecodeError(bytes(frame[4:]).decode())

    async with serving(answer) as port:
        connection = await connect(port)
        with pytest.raises(ConnectionLostError, match=r"makes no sense: \?"):
            await connection.exchange(ApiKey.METADATA, encode_metadata, decode)
        assert connection.closed
        await connection.close()


def encode_metadata(version: int, correlation_id: int, client_id: str) -> list[bytes]:
    request = make(
        MetadataRequest,
        topics=(),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return [encode_request(ApiKey.METADATA, version, correlation_id, client_id, request)]

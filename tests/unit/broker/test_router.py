"""From frames to handlers and back: every API fails with an answer, the others are served on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from uuid import UUID

import pytest
from tests.support.logs import records_of
from tests.support.memory_broker import MemoryBroker, replace_handler
from tests.support.requests import error_names
from tests.support.wire import (
    CLIENT_ID,
    ConnectionClosedError,
    WireClient,
    one_batch,
    read_with_kio,
)

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.net import Pending
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.fetch import FetchPartition, FetchRequest, FetchTopic, encode_fetch_request
from moldau.wire.headers import encode_request_header
from moldau.wire.messages import encode_request, newest_class
from moldau.wire.produce import encode_produce_request
from moldau.wire.schema import FieldSpec, fields_of

TOPIC_ID = UUID(int=9)
EVERY_VERSION = [
    (key, version)
    for key, versions in SERVED.items()
    for version in range(versions.oldest, versions.newest + 1)
]
NO_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Versions whose answer has no place for an error."""


def sample(kind: type) -> Any:
    """A message with one item in each list, so that an error has a place there."""
    return kind(**{spec.name: _sample_value(spec) for spec in fields_of(kind)})


def _sample_value(spec: FieldSpec) -> Any:
    if spec.entity is not None:
        value: Any = sample(spec.entity)
    elif spec.kind == "string":
        value = "x"
    elif spec.kind == "uuid":
        value = None
    elif spec.is_array:
        value = 0
    else:
        return spec.default
    return (value,) if spec.is_array else value


def sample_frame(key: ApiKey, version: int, correlation_id: int) -> bytes:
    name, topic_id = ("x", None) if version < 13 else (None, TOPIC_ID)
    if key is ApiKey.PRODUCE:
        topics = [(name, topic_id, [(0, bytes(one_batch(b"v")))])]
        parts = encode_produce_request(version, correlation_id, CLIENT_ID, None, -1, 1000, topics)
        return b"".join(parts)
    if key is ApiKey.FETCH:
        wanted = FetchTopic(name, topic_id, [FetchPartition(0, -1, 0, -1, -1, 1 << 20)])
        request = FetchRequest(-1, -1, 500, 1, 1 << 20, 0, 0, -1, [wanted], [])
        return bytes(encode_fetch_request(version, correlation_id, CLIENT_ID, request))
    return encode_request(
        key, version, correlation_id, CLIENT_ID, sample(newest_class(key, "request"))
    )


async def ask(client: WireClient, key: ApiKey, version: int) -> Any:
    """Send a sample; returns the answer as kio reads it."""
    client.write(sample_frame(key, version, 77))
    frame = await client.read_frame()
    assert frame[:4] == (77).to_bytes(4, "big")
    return read_with_kio(key, version, frame)


def fail(error: Exception) -> Callable[[Request[Any]], Any]:
    def handle(_request: Request[Any]) -> Any:
        raise error

    return handle


def fail_later(error: Exception) -> Callable[[Request[Any]], Any]:
    async def handle(_request: Request[Any]) -> Any:
        await asyncio.sleep(0)
        raise error

    return handle


def answer_nonsense(_error: Exception) -> Callable[[Request[Any]], Any]:
    return lambda _request: "not a message"


# Errors ------------------------------------------------------------------------------------------


async def test_a_failure_of_any_api_in_any_version_is_an_answer_with_its_code(
    broker: MemoryBroker, client: WireClient
) -> None:
    error = KafkaError(ErrorCode.POLICY_VIOLATION, "for this test")
    for key in SERVED:
        replace_handler(broker.router, key, fail(error))
    for key, version in EVERY_VERSION:
        names = set(error_names(await ask(client, key, version)))
        expected = set() if (key, version) in NO_PLACE else {"POLICY_VIOLATION"}
        assert names == expected, (key.name, version)


@pytest.mark.parametrize("failure", [fail, fail_later, answer_nonsense])
@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_CLUSTER, ApiKey.PRODUCE, ApiKey.METADATA])
async def test_a_bug_in_a_handler_is_an_unknown_server_error_and_logged_once(
    broker: MemoryBroker,
    client: WireClient,
    failure: Callable[[Exception], Callable[[Request[Any]], Any]],
    key: ApiKey,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if key is ApiKey.PRODUCE and failure is fail_later:
        failure = fail  # hand-written codecs have no coroutines
    replace_handler(broker.router, key, failure(RuntimeError("a bug")))
    assert set(error_names(await ask(client, key, 7 if key is not ApiKey.DESCRIBE_CLUSTER else 0)))
    (record,) = records_of(caplog, "moldau.broker")
    assert record.exc_info is not None
    assert "10.0.0.7" in record.getMessage()
    await client.create_topic("t")


async def test_a_failed_request_without_an_answer_closes_the_connection(
    broker: MemoryBroker, client: WireClient
) -> None:
    replace_handler(broker.router, ApiKey.PRODUCE, fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)))
    client.send_produce({"t": {0: one_batch(b"v")}}, acks=0)
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()


@pytest.mark.parametrize("failure", [fail, fail_later])
async def test_an_error_that_cannot_be_answered_closes_the_connection(
    broker: MemoryBroker,
    client: WireClient,
    failure: Callable[[Exception], Callable[[Request[Any]], Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    replace_handler(broker.router, ApiKey.DESCRIBE_CLUSTER, failure(RuntimeError("a bug")))
    route = broker.router._routes[ApiKey.DESCRIBE_CLUSTER]
    assert route is not None
    route.error_answer = lambda _request, _error: "not a message"
    client.send(ApiKey.DESCRIBE_CLUSTER)
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()
    assert len(records_of(caplog, "moldau.broker")) == 2


async def test_a_parked_fetch_that_fails_is_answered(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    sent = client.send_fetch({"t": {0: 0}}, max_wait_ms=500)
    await broker.settle()
    route = broker.router._routes[ApiKey.FETCH]
    assert route is not None
    encode = route.encode

    def broken_once(*_: object) -> NoReturn:
        route.encode = encode
        raise RuntimeError("a bug")

    route.encode = broken_once
    broker.clock.advance(0.5)
    answer = await client.receive_fetch(sent)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# Versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.METADATA, 99), (ApiKey.PRODUCE, 2), (ApiKey.FETCH, 3), (ApiKey.VOTE, 0)],
)
async def test_what_is_not_served_closes_the_connection(
    client: WireClient, key: ApiKey, version: int
) -> None:
    header = encode_request_header(key, version, 1, CLIENT_ID)
    client.write(len(header).to_bytes(4, "big") + header)
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()


async def test_a_body_that_cannot_be_read_closes_the_connection(client: WireClient) -> None:
    header = encode_request_header(ApiKey.CREATE_TOPICS, 7, 1, CLIENT_ID)
    client.write((len(header) + 1).to_bytes(4, "big") + header + b"\x7f")
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()


async def test_api_versions_of_the_future_are_answered_in_version_0(client: WireClient) -> None:
    header = encode_request_header(ApiKey.API_VERSIONS, 99, 5, CLIENT_ID)
    client.write(len(header).to_bytes(4, "big") + header)
    answer = read_with_kio(ApiKey.API_VERSIONS, 0, await client.read_frame())
    assert error_names(answer)[0] == "UNSUPPORTED_VERSION"
    assert [key.api_key for key in answer.api_keys] == [ApiKey.API_VERSIONS]


async def test_requests_are_counted(broker: MemoryBroker, client: WireClient) -> None:
    await client.call(ApiKey.API_VERSIONS)
    await client.create_topic("t")
    await client.produce("t", one_batch(b"v"))
    counted = {ApiKey(key).name: n for key, n in broker.parts.traffic.requests.items() if n}
    assert counted == {"API_VERSIONS": 1, "CREATE_TOPICS": 1, "PRODUCE": 1}


# Throttling --------------------------------------------------------------------------------------


def throttle_times(message: Any) -> Iterator[int]:
    if hasattr(message, "throttle_time"):
        yield round(message.throttle_time.total_seconds() * 1000)


async def test_the_time_to_hold_back_is_in_every_answer_that_has_a_place_for_it(
    broker: MemoryBroker, client: WireClient
) -> None:
    def throttled(request: Request[Any]) -> Any:
        request.throttle_ms = 250
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    for key in SERVED:
        replace_handler(broker.router, key, throttled)
    for key, version in EVERY_VERSION:
        answer = await ask(client, key, version)
        assert set(throttle_times(answer)) <= {250}, (key.name, version)
        if version == SERVED[key].newest and key != ApiKey.WRITE_TXN_MARKERS:
            assert list(throttle_times(answer)) == [250], key.name


# Time --------------------------------------------------------------------------------------------


async def test_a_request_that_takes_longer_than_its_client_waits_is_timed_out(
    broker: MemoryBroker, client: WireClient
) -> None:
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    replace_handler(broker.router, ApiKey.DELETE_TOPICS, lambda _request: never)
    sent = client.send(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=2000)
    await broker.settle()
    broker.clock.advance(1.9)
    await broker.settle()
    assert not client._reader._buffer  # type: ignore[attr-defined]
    broker.clock.advance(0.1)
    answer = await client.receive(ApiKey.DELETE_TOPICS, sent)
    assert [topic.error_code for topic in answer.responses] == [ErrorCode.REQUEST_TIMED_OUT]
    never.set_result(None)
    await broker.settle()


async def test_an_answer_in_time_leaves_no_timer(broker: MemoryBroker, client: WireClient) -> None:
    before = broker.clock.pending
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    assert broker.clock.pending == before


async def test_no_time_to_wait_is_no_deadline(broker: MemoryBroker, client: WireClient) -> None:
    seen: list[float | None] = []

    def handle(request: Request[Any]) -> Any:
        seen.append(request.deadline)
        return delete_topics(request)

    delete_topics = replace_handler(broker.router, ApiKey.DELETE_TOPICS, handle)
    for timeout in (0, -1, 3000):
        await client.call(ApiKey.DELETE_TOPICS, topics=[], timeout=timeout)
    assert seen == [None, None, broker.clock.monotonic() + 3]


# What a handler sees -----------------------------------------------------------------------------


async def test_a_handler_is_told_who_asks_and_where(
    broker: MemoryBroker, client: WireClient
) -> None:
    seen: list[Request[Any]] = []

    def note(request: Request[Any]) -> Any:
        seen.append(request)
        return list_groups(request)

    list_groups = replace_handler(broker.router, ApiKey.LIST_GROUPS, note)
    await client.call(ApiKey.LIST_GROUPS, 4, states_filter=["Empty"])
    (request,) = seen
    assert (request.version, request.header.client_id) == (4, CLIENT_ID)
    assert request.connection.listener == "PLAINTEXT"
    assert str(request.connection.principal) == "User:ANONYMOUS"
    assert request.client == (CLIENT_ID, "/10.0.0.7")
    assert request.body.states_filter == ("Empty",)
    assert request.broker is broker.parts


# Kept answers ------------------------------------------------------------------------------------


async def test_metadata_is_answered_from_the_cache_until_it_changes(
    broker: MemoryBroker, client: WireClient
) -> None:
    handled = 0

    def count(request: Request[Any]) -> Any:
        nonlocal handled
        handled += 1
        return metadata(request)

    metadata = replace_handler(broker.router, ApiKey.METADATA, count)
    await client.create_topic("t")
    for _ in range(3):
        answer = await client.call(ApiKey.METADATA, topics=[{"name": "t"}])
        assert [topic.name for topic in answer.topics] == ["t"]
    assert handled == 1
    await client.create_topic("u")
    answer = await client.call(ApiKey.METADATA, topics=None)
    assert [topic.name for topic in answer.topics] == ["t", "u"]
    assert handled == 2


async def test_neither_missing_topics_nor_errors_nor_throttled_answers_are_kept(
    broker: MemoryBroker, client: WireClient
) -> None:
    handled = 0
    how: list[Callable[[Request[Any]], Any]] = []

    def count(request: Request[Any]) -> Any:
        nonlocal handled
        handled += 1
        return how[-1](request)

    metadata = replace_handler(broker.router, ApiKey.METADATA, count)
    how.append(metadata)
    missing: dict[str, Any] = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
    for _ in range(2):
        await client.call(ApiKey.METADATA, **missing)
    assert handled == 2
    await client.create_topic("t")
    how.append(fail(KafkaError(ErrorCode.NOT_CONTROLLER)))
    await client.call(ApiKey.METADATA, **missing)

    def throttled(request: Request[Any]) -> Any:
        request.throttle_ms = 5
        return metadata(request)

    how.append(throttled)
    await client.call(ApiKey.METADATA, **missing)
    how.append(metadata)
    assert (await client.call(ApiKey.METADATA, **missing)).topics[0].error_code == 0
    assert handled == 5


# Turns -------------------------------------------------------------------------------------------


async def test_a_pipeline_of_costly_requests_gives_others_their_turn(
    broker: MemoryBroker, client: WireClient
) -> None:
    handled: list[str] = []

    def note(request: Request[Any]) -> Any:
        handled.append("many" if request.body.include_fenced_brokers else "one")
        return describe_cluster(request)

    describe_cluster = replace_handler(broker.router, ApiKey.DESCRIBE_CLUSTER, note)
    other = await broker.connect()
    fields = {"endpoint_type": 1, "include_fenced_brokers": True}
    requests = [
        encode_request(ApiKey.DESCRIBE_CLUSTER, 2, n, CLIENT_ID, build_request(**fields))
        for n in range(100)
    ]
    client.write(b"".join(requests))
    await other.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    for _ in requests:
        await client.read_frame()
    assert handled.count("many") == 100
    assert handled.index("one") < 10


def build_request(**fields: Any) -> Any:
    kind = newest_class(ApiKey.DESCRIBE_CLUSTER, "request")
    return kind(**({spec.name: spec.default for spec in fields_of(kind)} | fields))


def test_an_answer_is_taken_over_whenever_it_comes() -> None:
    for is_early in (True, False):
        place, other = Pending(), Pending()
        if is_early:
            other.complete([b"answer"])
        place.take_over(other)
        other.complete([b"answer"])
        told: list[object] = []
        place.when_done(told.append)
        assert told == [[b"answer"]]


def test_who_has_gone_abandons_what_is_taken_over() -> None:
    place, other = Pending(), Pending()
    abandoned: list[bool] = []
    other.on_abandoned = lambda: abandoned.append(True)
    place.abandoned = True
    place.take_over(other)
    assert abandoned == [True]

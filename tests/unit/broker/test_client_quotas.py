"""Quotas as clients meet them, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from tests.support.memory_broker import MemoryBroker, replace_handler
from tests.support.wire import CLIENT_ID, WireClient, one_batch, size_of

from moldau.broker.request import Request
from moldau.broker.routes import Route
from moldau.errors import ErrorCode
from moldau.net.connection import Blocked, ServerConnection
from moldau.wire.api import ApiKey
from moldau.wire.fetch import FetchResponse
from moldau.wire.produce import ProduceResponse

Entries = Mapping[str, str | None]
ANONYMOUS: Entries = {"user": "ANONYMOUS"}
CLIENT: Entries = {"client-id": CLIENT_ID}


def entry(entries: Entries, **ops: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entries.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in ops.items()
        ],
    }


async def alter(client: WireClient, entries: Entries, **ops: float | None) -> None:
    answer = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry(entries, **ops)])
    assert [result.error_code for result in answer.entries] == [0]


async def describe(
    client: WireClient, *components: tuple[str, int, str | None], version: int = 1, **how: Any
) -> Any:
    return await client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        version,
        components=[
            {"entity_type": kind, "match_type": how_to, "match": match}
            for kind, how_to, match in components
        ],
        **how,
    )


def found(answer: Any) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    return [
        (
            {part.entity_type: part.entity_name for part in one.entity},
            {value.key: value.value for value in one.values},
        )
        for one in answer.entries
    ]


@pytest.fixture
async def topic(client: WireClient) -> str:
    await client.create_topic("t")
    return "t"


def connection(broker: MemoryBroker) -> Any:
    """The broker's end of the one connection that there is."""
    (listener,) = broker.parts.listeners
    (only,) = listener._connections
    return only


def is_muted(broker: MemoryBroker) -> bool:
    return bool(connection(broker).blocked & Blocked.MUTED)


async def produce(client: WireClient, topic: str, size: int = 10_000) -> ProduceResponse:
    return await client.receive_produce(client.send_produce({topic: {0: one_batch(bytes(size))}}))


async def fetch(client: WireClient, topic: str, offset: int = 0, **how: Any) -> FetchResponse:
    return await client.fetch_all({topic: {0: offset}}, **how)


# Described and altered


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_described_and_removed(client: WireClient, version: int) -> None:
    answer = await client.call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        version,
        entries=[
            entry({"user": "v", "client-id": None}, request_percentage=12.5, producer_byte_rate=7),
            entry({"user": "u"}, consumer_byte_rate=9),
            entry({"ip": "1.2.3.4"}, connection_creation_rate=3),
            entry({"user": ""}, consumer_byte_rate=9),
        ],
    )
    assert [one.error_code for one in answer.entries] == [0, 0, 0, ErrorCode.INVALID_REQUEST]
    assert answer.entries[3].error_message == "Empty user not supported"
    assert [(part.entity_type, part.entity_name) for part in answer.entries[0].entity] == [
        ("client-id", None),
        ("user", "v"),
    ]
    assert found(await describe(client, version=version)) == [
        ({"client-id": None, "user": "v"}, {"producer_byte_rate": 7, "request_percentage": 12.5}),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 3}),
        ({"user": "u"}, {"consumer_byte_rate": 9}),
    ]
    assert found(await describe(client, ("user", 0, "u"), strict=True)) == [
        ({"user": "u"}, {"consumer_byte_rate": 9})
    ]
    await alter(client, {"user": "u"}, consumer_byte_rate=None)
    assert found(await describe(client, ("user", 0, "u"))) == []


async def test_a_filter_that_makes_no_sense_is_refused(client: WireClient) -> None:
    answer = await describe(client, ("user", 0, None))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "MATCH_TYPE_EXACT" in answer.error_message
    assert answer.entries is None


async def test_quotas_outlive_the_broker(broker: MemoryBroker, client: WireClient) -> None:
    await alter(client, ANONYMOUS, producer_byte_rate=1000)
    await broker.stop()
    async with MemoryBroker(disk=broker.disk) as again:
        client = await again.connect()
        assert found(await describe(client)) == [(dict(ANONYMOUS), {"producer_byte_rate": 1000})]
        await client.create_topic("t")
        assert (await produce(client, "t", 20_000)).throttle_ms > 10_000


# Enforced


@pytest.mark.parametrize(
    "entries",
    [
        ANONYMOUS,
        CLIENT,
        {**ANONYMOUS, **CLIENT},
        {"user": None},
        {"client-id": None},
        {"user": None, "client-id": None},
    ],
)
async def test_a_producer_over_its_quota_is_answered_at_once_and_then_held_back(
    broker: MemoryBroker, client: WireClient, topic: str, entries: Entries
) -> None:
    await alter(client, entries, producer_byte_rate=1000)
    first = await produce(client, topic, 9_000)
    assert first.throttle_ms == 0
    assert not is_muted(broker)
    second = await produce(client, topic, 9_000)
    assert second.topics[0][2][0].error_code == 0
    # Both are about 9,100 bytes: (1,820 - 1,000) / 1,000 * 10 s
    assert 8_000 < second.throttle_ms < 8_500
    waiting = asyncio.ensure_future(produce(client, topic, 1))
    await broker.settle()
    broker.clock.advance(second.throttle_ms / 1000 - 0.01)
    await broker.settle()
    assert is_muted(broker)
    assert not waiting.done()
    broker.clock.advance(0.02)
    assert (await waiting).topics[0][2][0].error_code == 0


async def test_a_producer_that_wants_no_answer_is_held_back_as_well(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await alter(client, CLIENT, producer_byte_rate=1000, request_percentage=0.001)
    client.send_produce({topic: {0: one_batch(bytes(20_000))}}, acks=0)
    client.send_produce({topic: {0: one_batch(b"later")}}, acks=0)
    await broker.settle()
    assert is_muted(broker)
    assert broker.parts.partition(topic, 0).log.log_end_offset == 1
    broker.clock.advance(11)
    await broker.settle()
    assert broker.parts.partition(topic, 0).log.log_end_offset == 2


async def test_a_quota_of_next_to_nothing_is_still_answered(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await alter(client, CLIENT, producer_byte_rate=1)
    answer = await produce(client, topic, 1_000_000)
    assert 100_000_000 < answer.throttle_ms < 2**31
    assert answer.topics[0][2][0].error_code == 0


async def test_a_consumer_over_its_quota_gets_an_empty_answer_and_the_records_later(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    for _ in range(4):
        await produce(client, topic, 4_000)
    await alter(client, CLIENT, consumer_byte_rate=1000)
    started = await fetch(client, topic, session_epoch=0, partition_max_bytes=5_000)
    assert started.throttle_ms == 0
    session = started.session_id
    steps: dict[str, Any] = {"session_id": session, "partition_max_bytes": 5_000}
    more = await fetch(client, topic, 1, session_epoch=1, **steps)
    assert more.throttle_ms == 0
    held_back = await fetch(client, topic, 2, session_epoch=2, **steps)
    assert held_back.throttle_ms > 1_000
    assert (held_back.session_id, held_back.topics) == (session, [])
    again, epoch = held_back, 3
    while again.throttle_ms:
        sent = client.send_fetch({}, session_epoch=epoch, **steps)
        broker.clock.advance(again.throttle_ms / 1000)
        again, epoch = await client.receive_fetch(sent), epoch + 1
    ((_, _, (partition,)),) = again.topics
    assert size_of(partition) > 4_000
    # Three times 5,000 bytes fit into the quota only when the others have left the window.
    assert broker.clock.monotonic() == 15


async def test_a_new_session_is_not_begun_with_an_empty_answer(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await produce(client, topic, 10_000)
    await alter(client, CLIENT, consumer_byte_rate=100)
    answer = await fetch(client, topic, session_epoch=0)
    assert answer.throttle_ms > 0
    assert (answer.session_id, answer.topics) == (0, [])
    assert len(broker.parts.fetch_sessions) == 0


async def test_a_consumer_reads_no_more_than_fits_into_its_window(
    client: WireClient, topic: str
) -> None:
    for _ in range(10):
        await produce(client, topic, 1_000)
    await alter(client, CLIENT, consumer_byte_rate=400)
    answer = await fetch(client, topic, min_bytes=10_000, max_wait_ms=60_000)
    ((_, _, (partition,)),) = answer.topics
    assert 3_000 < size_of(partition) <= 4_000
    assert answer.throttle_ms == 0


async def test_a_parked_fetch_is_charged_when_it_is_answered(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await alter(client, {"client-id": None}, consumer_byte_rate=100)
    reader = await broker.connect()
    sent = reader.send_fetch({topic: {0: 0}}, max_wait_ms=60_000)
    await broker.settle()
    await produce(client, topic, 3_000)
    answer = await reader.receive_fetch(sent)
    assert answer.throttle_ms > 0
    assert answer.topics == []


async def test_followers_have_no_quota(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await produce(client, topic, 10_000)
    await alter(client, CLIENT, consumer_byte_rate=1, request_percentage=0.0001)
    follower = await broker.connect(broker_id=2)
    answer = await fetch(follower, topic, replica_id=2)
    assert answer.throttle_ms == 0


async def test_time_on_the_loop_is_charged_and_the_wait_is_bounded(
    broker: MemoryBroker, client: WireClient
) -> None:
    def slow(request: Request[Any]) -> Any:
        broker.clock.advance(0.0205)
        return describe_cluster(request)

    describe_cluster = replace_handler(broker.router, ApiKey.DESCRIBE_CLUSTER, slow)
    await alter(client, CLIENT, request_percentage=0.1)
    # 20.5 ms of 10 s are 0.205 %: (0.205 - 0.1) / 0.1 * 10 s, but a second at most.
    answer = await client.call(ApiKey.DESCRIBE_CLUSTER)
    assert answer.throttle_time.total_seconds() == 1.0
    assert is_muted(broker)
    broker.clock.advance(1)
    assert not is_muted(broker)
    await alter(client, CLIENT, request_percentage=0.4)
    second = await client.call(ApiKey.DESCRIBE_CLUSTER)
    # 2 * 20.5 ms in about 10 s are 0.41 %.
    assert 0 < second.throttle_time.total_seconds() < 1


async def test_steps_of_a_request_that_waits_are_charged_without_the_waiting(
    broker: MemoryBroker, client: WireClient
) -> None:
    gate = asyncio.get_running_loop().create_future()

    async def slow(request: Request[Any]) -> Any:
        broker.clock.advance(0.004)
        await gate
        broker.clock.advance(0.004)
        return describe_cluster(request)

    describe_cluster = replace_handler(broker.router, ApiKey.DESCRIBE_CLUSTER, slow)
    await alter(client, CLIENT, request_percentage=0.1)
    sent = client.send(ApiKey.DESCRIBE_CLUSTER)
    await broker.settle()
    broker.clock.advance(5)
    gate.set_result(None)
    answer = await client.receive(ApiKey.DESCRIBE_CLUSTER, sent)
    assert answer.throttle_time.total_seconds() == 0  # 8 ms of 10 s


async def test_a_handler_that_fails_after_a_wait_is_answered(
    broker: MemoryBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_request: Request[Any]) -> Any:
        await asyncio.sleep(0)
        raise RuntimeError("a bug")

    replace_handler(broker.router, ApiKey.DESCRIBE_CLUSTER, fail)
    await alter(client, CLIENT, request_percentage=1)
    answer = await client.call(ApiKey.DESCRIBE_CLUSTER)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a bug" in caplog.text


@pytest.mark.parametrize(("version", "error"), [(7, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (5, 0)])
async def test_topics_cost_their_partitions(
    broker: MemoryBroker, client: WireClient, version: int, error: int
) -> None:
    await alter(client, ANONYMOUS, controller_mutation_rate=1)

    def topics(*sizes: int) -> list[dict[str, Any]]:
        return [
            {"name": f"t{number}", "num_partitions": size, "replication_factor": 1}
            for number, size in enumerate(sizes)
        ]

    answer = await client.call(ApiKey.CREATE_TOPICS, version, topics=topics(12, 3))
    assert [topic.error_code for topic in answer.topics] == [0, error]
    debt_s = 1 if error else 4
    assert answer.throttle_time.total_seconds() == debt_s
    assert is_muted(broker)
    sent = client.send(ApiKey.DELETE_TOPICS, topics=[{"name": "t0", "topic_id": None}])
    broker.clock.advance(debt_s)
    deleted = await client.receive(ApiKey.DELETE_TOPICS, sent)
    assert [topic.error_code for topic in deleted.responses] == [0]
    assert deleted.throttle_time.total_seconds() == 0


async def test_a_topic_that_is_merely_mentioned_costs_as_well(
    client: WireClient,
) -> None:
    await alter(client, ANONYMOUS, controller_mutation_rate=0.05)
    names = ["a", "b"]
    answer = await client.call(ApiKey.METADATA, topics=[{"name": name} for name in names])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [topic.error_code for topic in answer.topics] == [0, unknown]


async def test_an_address_that_connects_too_fast_is_turned_away(
    broker: MemoryBroker, client: WireClient
) -> None:
    await alter(client, {"ip": None}, connection_creation_rate=1)
    friends = [await broker.connect() for _ in range(10)]
    with pytest.raises(ConnectionRefusedError):
        await broker.connect()
    for friend in friends:
        assert (await friend.call(ApiKey.DESCRIBE_CLUSTER)).error_code == 0
    await alter(client, {"ip": None}, connection_creation_rate=None)
    assert (await (await broker.connect()).call(ApiKey.DESCRIBE_CLUSTER)).error_code == 0


async def test_requests_are_metered_while_a_user_or_client_has_a_quota(
    broker: MemoryBroker, client: WireClient
) -> None:
    def is_metering() -> bool:
        return broker.parts.client_quotas.is_metering

    await client.create_topic("t")
    assert not is_metering()
    await alter(client, {"ip": None}, connection_creation_rate=100)
    assert not is_metering()
    await alter(client, {"user": "somebody"}, producer_byte_rate=1)
    assert is_metering()
    assert (await produce(client, "t", 100_000)).throttle_ms == 0
    await alter(client, {"user": "somebody"}, producer_byte_rate=None)
    assert not is_metering()


# What must not go wrong


TINY = 1e-310


async def flushed_topic(client: WireClient) -> str:
    """Each append waits for the disk: its answer comes later."""
    configs = [{"name": "flush.messages", "value": "1"}]
    wanted = {"name": "f", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    await client.call(ApiKey.CREATE_TOPICS, topics=[wanted])
    return "f"


@pytest.mark.parametrize("flushed", [False, True])
async def test_the_smallest_quota_fails_no_request(
    broker: MemoryBroker, client: WireClient, topic: str, flushed: bool
) -> None:
    topic = await flushed_topic(client) if flushed else topic
    await alter(client, CLIENT, producer_byte_rate=TINY)
    answer = await produce(client, topic, 10)
    assert answer.topics[0][2][0].error_code == 0
    assert answer.throttle_ms == 2**31 - 1
    assert is_muted(broker)


async def test_the_smallest_quota_closes_no_connection(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await alter(client, CLIENT, producer_byte_rate=TINY)
    client.send_produce({topic: {0: one_batch(b"x")}}, acks=0)
    await broker.settle()
    assert is_muted(broker)
    assert broker.parts.partition(topic, 0).log.log_end_offset == 1


@pytest.mark.parametrize("acks", [0, 1])
async def test_what_cannot_be_counted_is_answered_and_told_once(
    broker: MemoryBroker,
    client: WireClient,
    topic: str,
    acks: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await alter(client, CLIENT, producer_byte_rate=1)

    def fail(*_: object) -> int:
        raise OverflowError("a bug")

    monkeypatch.setattr(broker.parts.client_quotas.produce, "record", fail)
    for _ in range(2):
        sent = client.send_produce({topic: {0: one_batch(b"x")}}, acks=acks)
        if acks:
            answer = await client.receive_produce(sent)
            assert (answer.topics[0][2][0].error_code, answer.throttle_ms) == (0, 0)
    await broker.settle()
    assert broker.parts.partition(topic, 0).log.log_end_offset == 2
    assert not is_muted(broker)
    assert caplog.text.count("OverflowError: a bug") == 1


async def test_a_parked_produce_whose_answer_fails_ends(
    broker: MemoryBroker, client: WireClient
) -> None:
    topic = await flushed_topic(client)

    def fail(*_: object) -> NoReturn:
        raise RuntimeError("a bug")

    route = broker.router._routes[ApiKey.PRODUCE] = Route(ApiKey.PRODUCE)
    route.encode = fail
    client.send_produce({topic: {0: one_batch(b"x")}})
    await broker.settle()
    (listener,) = broker.parts.listeners
    assert not listener._connections


async def test_the_largest_mutation_rate_is_as_good_as_none(client: WireClient) -> None:
    await alter(client, CLIENT, controller_mutation_rate=sys.float_info.max)
    wanted = [{"name": "h", "num_partitions": 100, "replication_factor": 1}]
    answer = await client.call(ApiKey.CREATE_TOPICS, topics=wanted)
    assert answer.topics[0].error_code == 0
    assert answer.throttle_time == timedelta()


def connections_in_memory() -> int:
    gc.collect()
    return sum(type(item) is ServerConnection for item in gc.get_objects())


async def test_a_muted_connection_that_ends_leaves_nothing_behind(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    await alter(client, CLIENT, producer_byte_rate=1)
    before, timers = connections_in_memory(), broker.clock.pending
    for _ in range(3):
        friend = await broker.connect()
        assert (await produce(friend, topic)).throttle_ms > 0
        await friend.close()
    del friend
    broker.clock.advance(3600)
    await broker.settle()
    assert connections_in_memory() <= before
    assert broker.clock.pending <= timers


@pytest.mark.parametrize("ends", [False, True])
async def test_a_client_that_waits_no_longer_is_still_held_back_if_it_is_there(
    broker: MemoryBroker, client: WireClient, ends: bool
) -> None:
    await alter(client, CLIENT, controller_mutation_rate=1)
    gate = asyncio.get_running_loop().create_future()

    async def slow(request: Request[Any]) -> Any:
        await gate
        return await create_topics(request)

    create_topics = replace_handler(broker.router, ApiKey.CREATE_TOPICS, slow)
    wanted = [{"name": "t", "num_partitions": 100, "replication_factor": 1}]
    timeout = timedelta(milliseconds=100)
    sent = client.send(ApiKey.CREATE_TOPICS, 5, topics=wanted, timeout=timeout)
    await broker.settle()
    broker.clock.advance(0.2)
    answer = await client.receive(ApiKey.CREATE_TOPICS, sent, 5)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    muted = connection(broker)
    if ends:
        muted.abort()
        await broker.settle()
    gate.set_result(None)
    await broker.settle()
    assert bool(muted.blocked & Blocked.MUTED) is not ends


async def test_an_address_has_one_quota(broker: MemoryBroker, client: WireClient) -> None:
    plain, mapped = {"ip": "1.2.3.4"}, {"ip": "::ffff:1.2.3.4"}
    await alter(client, plain, connection_creation_rate=5)
    await alter(client, mapped, connection_creation_rate=7)
    assert found(await describe(client, ("ip", 0, mapped["ip"]))) == [
        (plain, {"connection_creation_rate": 7})
    ]
    await alter(client, mapped, connection_creation_rate=None)
    assert found(await describe(client)) == []
    assert broker.parts.client_quotas.connections.quota(("1.2.3.4",), 0) is None

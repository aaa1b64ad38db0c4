"""Whatever comes in on the port: a log line and a closed connection, never more."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cluster.test_broker_versions import requests
from tests.support.in_process import InProcessBroker, eventually
from tests.support.soak import SOAK
from tests.support.wire import (
    ConnectionClosedError,
    WireClient,
    build,
    flatten,
    one_batch,
    values_of,
)

from moldau.testing.broker import MoldauProcess
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.errors import EncodeError
from moldau.wire.fetch import FetchPartition, FetchRequest, FetchTopic, encode_fetch_request
from moldau.wire.headers import encode_request_header
from moldau.wire.messages import encode_request, newest_class
from moldau.wire.produce import encode_produce_request

MIB = 1024 * 1024
IDLE_MS = 20_000
PATIENCE_S = 50.0

# The beginning of what curl and openssl send to an HTTPS port.
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))
HTTP = b"GET / HTTP/1.1\r\nHost: localhost:9092\r\nUser-Agent: curl/8\r\n\r\n"


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api: ApiKey, version: int) -> bytes:
    return encode_request_header(api, version, 1, "tests")


async def still_serves(broker: InProcessBroker) -> None:
    async with await WireClient.connect(broker.address) as client:
        assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


# What is not Kafka's protocol --------------------------------------------------------------------

HUGE = struct.pack(">i", 2**31 - 1)
GARBAGE = {
    "a TLS hello": (TLS_HELLO, "TLS"),
    "HTTP": (HTTP, "HTTP"),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    "a negative size": (struct.pack(">i", -1) + bytes(10), "negative frame size"),
    "a huge size": (struct.pack(">i", 2**31 - 1) + bytes(10), "socket.request.max.bytes"),
    "random bytes": (random.Random(3).randbytes(500), "closing"),
    "an empty frame": (framed(b""), "header"),
    "half a header": (framed(b"\0\x03\0"), "header"),
    "an unknown API": (framed(struct.pack(">hhih", 999, 0, 1, -1)), "999"),
    "a client id too long": (framed(struct.pack(">hhih", 3, 9, 1, 32000) + b"x"), "client id"),
    "an absurd number of topics": (
        framed(header(ApiKey.METADATA, 1) + HUGE),
        "METADATA",
    ),
    "an absurd compact number": (
        framed(header(ApiKey.METADATA, 12) + b"\xff\xff\xff\xff\x0f"),
        "METADATA",
    ),
    "an absurd number of topics to create": (
        framed(header(ApiKey.CREATE_TOPICS, 2) + HUGE),
        "CREATE_TOPICS",
    ),
    "an absurd number of produced topics": (
        framed(header(ApiKey.PRODUCE, 3) + b"\xff\xff" + struct.pack(">hi", 1, 1000) + HUGE),
        "PRODUCE",
    ),
    "an absurd number of fetched topics": (
        framed(header(ApiKey.FETCH, 4) + struct.pack(">iiiib", -1, 0, 0, 0, 0) + HUGE),
        "FETCH",
    ),
    "records longer than their frame": (
        framed(
            header(ApiKey.PRODUCE, 3)
            + b"\xff\xff"
            + struct.pack(">hii", 1, 1000, 1)
            + b"\0\x01t"
            + struct.pack(">iii", 1, 0, 10_000)
        ),
        "PRODUCE",
    ),
    "a name that is not text": (
        framed(header(ApiKey.METADATA, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        "METADATA",
    ),
    "the middle of a request": (
        framed(header(ApiKey.CREATE_TOPICS, 7) + b"\x05"),
        "CREATE_TOPICS",
    ),
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_garbage_closes_the_connection_with_a_line_in_the_log(
    broker: InProcessBroker, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    garbage, told = GARBAGE[what]
    bystander = await broker.connect()
    client = await broker.connect()
    client.write(garbage)
    assert await client.wait_closed_by_peer() == b""
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 1
    assert told in lines[0]
    assert "127.0.0.1" in lines[0]
    assert not [record for record in caplog.records if record.exc_info], "no traceback"
    assert (await bystander.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_requests_before_the_garbage_are_answered(broker: InProcessBroker) -> None:
    client = await broker.connect()
    sent = client.send(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    client.write(TLS_HELLO)
    assert (await client.receive(ApiKey.DESCRIBE_CLUSTER, sent)).brokers
    assert await client.wait_closed_by_peer() == b""


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 14, 30])
async def test_half_a_request_and_then_the_end_is_forgotten(
    broker: InProcessBroker, cut: int
) -> None:
    whole = framed(header(ApiKey.METADATA, 12) + b"\x00\x01\x00\x00" + bytes(30))
    client = await broker.connect()
    client.write(whole[:cut])
    await client.close()
    await eventually(lambda: broker.connections == 0)
    await still_serves(broker)


async def test_half_a_request_and_then_silence_bothers_nobody(broker: InProcessBroker) -> None:
    silent = [await broker.connect() for _ in range(20)]
    for number, client in enumerate(silent):
        client.write(framed(bytes(1000))[: 4 + number * 40])
    client = await broker.connect()
    await client.create_topic("t")
    assert (await client.produce("t", one_batch(b"v"))).error_code == 0
    assert values_of(await client.fetch("t")) == [b"v"]


@pytest.mark.parametrize(
    "broker",
    [{"connections.max.idle.ms": "100", "connection.failed.authentication.delay.ms": "10"}],
    indirect=True,
)
async def test_silence_ends_when_the_idle_time_is_over(
    broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.connect()
    client.write(b"\0\0")
    assert await client.wait_closed_by_peer() == b""
    await eventually(lambda: broker.connections == 0)
    # Whoever is held up for longer than that on the way to its request is also sent away.
    async with asyncio.timeout(60):
        while True:
            with suppress(ConnectionClosedError, ConnectionError):
                await still_serves(broker)
                break


async def test_a_request_that_arrives_byte_by_byte_is_answered(broker: InProcessBroker) -> None:
    client = await broker.connect()
    request = build(newest_class(ApiKey.METADATA, "request"), {"topics": []})
    for byte in encode_request(ApiKey.METADATA, 12, 5, "slow", request):
        client.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.receive(ApiKey.METADATA, 5, 12)).brokers


@pytest.mark.parametrize("broker", [{"socket.request.max.bytes": "2000"}], indirect=True)
async def test_a_request_above_the_limit_is_refused_before_it_is_read(
    broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    assert (await client.produce("t", one_batch(b"x" * 1000))).error_code == 0
    client.send_produce({"t": {0: one_batch(b"x" * 2000)}})
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()
    assert "socket.request.max.bytes=2000" in caplog.text


# Mutations ---------------------------------------------------------------------------------------


def valid_frames() -> list[bytes]:
    """A request of every API in its oldest and newest version, if need be with its defaults."""
    frames = []
    for api, served in SERVED.items():
        if api in (ApiKey.PRODUCE, ApiKey.FETCH):
            continue
        for version in {served.oldest, served.newest}:
            request = build(newest_class(api, "request"), requests(version).get(api, {}))
            with suppress(EncodeError):  # a list of the newest version may be a single field here
                frames.append(encode_request(api, version, 1, "tests", request))
    wanted = FetchTopic("t", None, [FetchPartition(0, -1, 0, -1, -1, 1000)])
    fetch = FetchRequest(-1, -1, 1, 1, 1000, 0, 0, -1, [wanted])
    frames += [encode_fetch_request(version, 1, "tests", fetch) for version in (4, 12)]
    frames += [
        b"".join(
            bytes(part)
            for part in encode_produce_request(
                version, 1, "tests", None, 1, 1000, [("t", None, [(0, one_batch(b"v"))])]
            )
        )
        for version in (3, 12)
    ]
    return frames


def mutated(frame: bytes, rng: random.Random) -> bytes:
    """The frame with some bytes changed, cut out or put in; its size is right most of the time."""
    body = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(8, len(body))  # the header's key, version and id stay
        kind = rng.randrange(5)
        if kind == 0:
            body[at] = rng.randrange(256)
        elif kind == 1:
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del body[at : at + rng.randrange(1, 8)]
        elif kind == 3:
            body[at:at] = rng.randbytes(rng.randrange(1, 8))
        else:
            body[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
        if len(body) < 10:
            break
    return framed(bytes(body)) if rng.random() < 0.95 else frame[:4] + bytes(body)


async def all_others_gone(broker: InProcessBroker, bystander: WireClient) -> None:
    """Wait for the end of all connections but one, as long as the broker works for them.

    A number may have been mutated into thousands of partitions: that many are made, in slices, and
    the request that asked for them ends when they are there. Or into a wait of days: who said that
    it has no more requests, and went away then, is only found out by being idle.
    """
    seen: set[str] = set()
    idle = 0
    while broker.connections > 1:
        made = {entry.name for entry in broker.data_dir.iterdir()}
        idle = idle + 1 if made == seen else 0
        assert idle < 100, "connections stay although nothing is done for them"
        seen = made
        await bystander.call(ApiKey.API_VERSIONS, 0)  # it is not idle itself
        await asyncio.sleep(2 * IDLE_MS / 1000 / 100)


@pytest.mark.parametrize("broker", [{"connections.max.idle.ms": str(IDLE_MS)}], indirect=True)
async def test_thousands_of_mutated_requests_harm_nobody(
    broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    # The same mutations in every run, as with the property tests; the long run looks for new ones.
    fresh = random.randrange(2**32) if SOAK else 1
    seed = int(os.environ.get("MOLDAU_SEED", fresh))
    print(f"MOLDAU_SEED={seed}")
    rng = random.Random(seed)
    async with await WireClient.connect(broker.address) as bystander:
        await bystander.create_topic("witness")
    frames = valid_frames()
    answered = 0
    for round_number in range(20):
        clients = [await WireClient.connect(broker.address) for _ in range(100)]
        for client in clients:
            client.write(mutated(rng.choice(frames), rng))
            client.end_of_requests()
        ends = [asyncio.ensure_future(client.wait_closed_by_peer()) for client in clients]
        # Every connection ends, with or without an answer; only a new mutation may be a long poll.
        done, parked = await asyncio.wait(ends, timeout=PATIENCE_S)
        assert not parked or seed != 1, "a request is neither answered nor refused"
        answered += sum(bool(end.result()) for end in done)
        for end in parked:
            end.cancel()
        for client in clients:
            client.abort()
        # Of a connection of its own each time: rounds may take longer than one may be idle.
        async with await WireClient.connect(broker.address) as bystander:
            witness = await bystander.produce("witness", one_batch(b"%d" % round_number))
        assert witness.base_offset == round_number
    bystander = await broker.connect()
    await all_others_gone(broker, bystander)
    fetched = await bystander.fetch("witness")
    assert values_of(fetched) == [b"%d" % n for n in range(20)]
    assert answered > 300, "mutations that hit nothing essential are answered"
    failures = [record for record in caplog.records if record.exc_info]
    assert not failures, failures[0].getMessage()


# Many, slow, gone --------------------------------------------------------------------------------


async def test_hundreds_of_connections_opened_and_dropped_leave_nothing(
    broker: InProcessBroker,
) -> None:
    bystander = await broker.connect()
    await bystander.create_topic("t")
    for leave in ("close", "abort", "request", "parked"):
        clients = [await WireClient.connect(broker.address) for _ in range(50)]
        for client in clients:
            if leave == "request":
                client.send(ApiKey.METADATA, topics=None)
            elif leave == "parked":
                client.send_fetch({"t": {0: 0}}, max_wait_ms=600_000)
            if leave == "close":
                await client.close()
            else:
                client.abort()
        await eventually(lambda: broker.connections == 1)
    assert broker.partition("t").parked == 0
    assert (await bystander.produce("t", one_batch(b"v"))).error_code == 0


@pytest.mark.parametrize("broker", [{"max.connections": "3"}], indirect=True)
async def test_a_full_broker_lets_the_next_one_in_when_another_leaves(
    broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [await broker.connect() for _ in range(3)]
    for client in clients:
        await client.call(ApiKey.API_VERSIONS, 0)
    late = await broker.connect()
    waiting = asyncio.create_task(late.call(ApiKey.API_VERSIONS, 0))
    await eventually(lambda: "max.connections" in caplog.text)
    for client in clients:
        assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert not waiting.done()
    await clients[0].close()
    assert (await waiting).error_code == 0


@pytest.mark.parametrize("broker", [{"max.connections.per.ip": "2"}], indirect=True)
async def test_an_address_with_too_many_connections_is_refused(
    broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [await broker.connect() for _ in range(2)]
    for client in clients:
        await client.call(ApiKey.API_VERSIONS, 0)
    refused = await broker.connect()
    assert await refused.wait_closed_by_peer() == b""
    assert "max.connections.per.ip=2" in caplog.text
    await clients[0].close()
    await eventually(lambda: broker.connections == 1)
    await still_serves(broker)


# Memory, in a process of its own -----------------------------------------------------------------


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauProcess]:
    with MoldauProcess(tmp_path_factory.mktemp("robust")) as broker:
        yield broker


def resident(process: MoldauProcess) -> int:
    """Bytes of memory that the broker occupies."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_announced_bytes_cost_nothing_until_they_come(process: MoldauProcess) -> None:
    async with await WireClient.connect(process.bootstrap_servers) as client:
        await client.call(ApiKey.API_VERSIONS, 0)
    before = resident(process)
    clients = [await WireClient.connect(process.bootstrap_servers) for _ in range(200)]
    for client in clients:
        client.write(struct.pack(">i", 100 * MIB) + bytes(1000))
    async with await WireClient.connect(process.bootstrap_servers) as client:
        await client.call(ApiKey.API_VERSIONS, 0)
    assert resident(process) - before < 20 * MIB, "20 GB were announced"
    for client in clients:
        client.abort()


async def test_a_client_that_never_reads_its_answers_costs_little(process: MoldauProcess) -> None:
    async with await WireClient.connect(process.bootstrap_servers) as client:
        await client.create_topic("many", 500)
        await client.create_topic("large")
        await client.produce("large", one_batch(b"x" * 900_000))
        await client.call(ApiKey.METADATA, topics=None)
        before = resident(process)

        deaf = [await WireClient.connect(process.bootstrap_servers, limit=1) for _ in range(3)]
        broker = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        for _ in range(1000):
            deaf[0].send(ApiKey.METADATA, topics=None)
            deaf[1].send_fetch({"large": {0: 0}})
            deaf[2].send(ApiKey.DESCRIBE_CONFIGS, resources=[broker], include_documentation=True)
        for _ in range(20):
            assert (await client.produce("large", one_batch(b"v"))).error_code == 0
        answer = await client.fetch_all({"large": {0: 1}})
        assert [len(values_of(p)) for _, p in flatten(answer)] == [20]
        assert resident(process) - before < 40 * MIB, "gigabytes of answers were asked for"
        for one in deaf:
            one.abort()
        assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_a_flood_of_requests_behind_a_long_poll_is_bounded(process: MoldauProcess) -> None:
    async with await WireClient.connect(process.bootstrap_servers) as client:
        await client.create_topic("parked")
        await client.create_topic("flood", 200)
        await client.call(ApiKey.METADATA, topics=[{"name": "flood"}])
        before = resident(process)
        flooding = await WireClient.connect(process.bootstrap_servers)
        flooding.send_fetch({"parked": {0: 0}}, max_wait_ms=600_000)
        for _ in range(5000):
            flooding.send(ApiKey.METADATA, topics=[{"name": "flood"}])
        for _ in range(20):
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        assert resident(process) - before < 30 * MIB
        flooding.abort()


async def test_a_client_that_left_before_its_answer_bothers_nobody(
    broker: InProcessBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_topic("t")
    for _ in range(20):
        hasty = await broker.connect()
        hasty.send(ApiKey.METADATA, topics=None)
        hasty.send(ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 1}])
        hasty.abort()
    await eventually(lambda: broker.connections == 1)
    assert not [record for record in caplog.records if record.exc_info]

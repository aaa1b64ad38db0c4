"""Strangers who begin requests and do not end them: a broker's memory, and everybody else."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.request import urlopen

import pytest
from tests.support.hostile import MIB, cost_of
from tests.support.wire import WireClient, one_batch

from moldau.testing.broker import MoldauProcess

LIMIT = 8 * MIB
SETTINGS = {
    "queued.max.request.bytes": LIMIT,
    "socket.request.max.bytes": LIMIT,
    "socket.receive.buffer.bytes": 64 * 1024,
    "socket.listen.backlog.size": 1000,
    "metrics.listener": "HTTP://127.0.0.1:0",
}
UNFINISHED = struct.pack(">i", LIMIT - 4) + bytes(MIB)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauProcess]:
    with MoldauProcess(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as running:
        yield running


@pytest.fixture
def strangers(broker: MoldauProcess) -> Iterator[list[socket.socket]]:
    """Hundreds of connections."""
    with ExitStack() as stack:
        yield [stack.enter_context(_connected(broker)) for _ in range(300)]


def _connected(broker: MoldauProcess) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    sock.connect((broker.host, broker.port))
    sock.setblocking(False)
    return sock


async def metric(broker: MoldauProcess, name: str) -> float:
    def read() -> str:
        url = re.findall(r"metrics are at (\S+)", broker.log_file.read_text())[-1]
        with urlopen(url, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    (value,) = re.findall(rf"^\w+_{name} (\S+)$", await asyncio.to_thread(read), re.MULTILINE)
    return float(value)


async def until_metric(broker: MoldauProcess, name: str, at_most: float) -> None:
    while await metric(broker, name) > at_most:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0.01)


def push(sock: socket.socket, data: bytes) -> int:
    """Returns how many bytes the socket takes now; none if it is closed."""
    with suppress(BlockingIOError, ConnectionError):
        return sock.send(data)
    return 0


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def test_what_hundreds_begin_takes_bounded_memory_and_others_are_served(
    broker: MoldauProcess, strangers: list[socket.socket]
) -> None:
    async def attack() -> int:
        sent = dict.fromkeys(strangers, 0)
        rounds_in_vain = offset = 0
        while rounds_in_vain < 5:
            before = sum(sent.values())
            for sock, at in sent.items():
                sent[sock] += push(sock, UNFINISHED[at : at + 64 * 1024])
            rounds_in_vain = rounds_in_vain + 1 if sum(sent.values()) == before else 0
            result = await client.produce("t", one_batch(b"v"))
            assert (result.error_code, result.base_offset) == (0, offset)
            offset += 1
        return sum(sent.values())

    async with await WireClient.connect(broker.bootstrap_servers) as client:
        await client.create_topic("t")
        total, cost = await cost_of(broker, attack)
    assert total > 3 * LIMIT, "what is not read lies with the kernel"
    # The limit, one request that goes over it, its buffer while it grows, connections.
    assert cost.memory < 4 * LIMIT
    assert await metric(broker, "memorypooldepletedtimetotal") > 0
    for sock in strangers:
        sock.close()
    await until_metric(broker, "memorypoolused", 0)
    assert await metric(broker, "memorypoolavailable") == LIMIT


async def test_who_drips_is_dropped_and_who_waits_is_served(
    broker: MoldauProcess, strangers: list[socket.socket]
) -> None:
    # Of each 64 KiB are counted: most of them have it, the others wait before anybody else does.
    strangers = strangers[:200]
    for sock in strangers:
        assert push(sock, UNFINISHED[:14_000]) == 14_000
    await until_metric(broker, "memorypoolavailable", 0)
    async with (
        await WireClient.connect(broker.bootstrap_servers) as small,
        await WireClient.connect(broker.bootstrap_servers) as large,
    ):
        await small.create_topic("t2")
        waiting = asyncio.ensure_future(large.produce("t2", one_batch(bytes(900_000))))
        served = 0
        while not waiting.done():
            for sock in strangers:
                push(sock, b"x")
            assert (await small.produce("t2", one_batch(b"v"))).error_code == 0
            served += 1
            await asyncio.sleep(0.05)
        assert (await waiting).error_code == 0
    assert served > 20
    closed = sum(map(is_closed, strangers))
    assert 0 < closed < len(strangers)
    lines = [line for line in broker.log_file.read_text().splitlines() if "queued.max.req" in line]
    assert 0 < len(lines) <= closed
    assert all("closing 127.0.0.1:" in line for line in lines)

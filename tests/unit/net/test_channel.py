from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Sequence

import pytest
from tests.support.connections import machine, serving, until
from tests.support.memory_network import frame

from moldau.machine.network import Part
from moldau.net.channel import Channel
from moldau.net.connection import Pending, ServerConnection
from moldau.net.errors import ChannelClosedError, FrameSizeError, RequestTimeoutError
from moldau.net.frames import MIB
from moldau.testing.clock import ManualClock
from moldau.wire.errors import ProtocolError


def request(correlation_id: int, body: bytes = b"") -> list[bytes]:
    return [frame(struct.pack(">i", correlation_id) + body)]


class Broker:
    """Echoes; parks ``wait``, ignores ``oneway``, answers ``raw …`` with the bytes behind it."""

    def __init__(self) -> None:
        self.parked: list[Pending] = []
        self.received: list[bytes] = []

    def __call__(
        self, connection: ServerConnection, frame_view: memoryview
    ) -> Sequence[Part] | Pending | None:
        body = bytes(frame_view[4:])
        self.received.append(body)
        if body == b"wait":
            self.parked.append(Pending())
            return self.parked[-1]
        if body == b"oneway":
            return None
        if body == b"close":
            connection.close()
            return None
        if body.startswith(b"raw "):
            return [body[4:]]
        return [frame(bytes(frame_view))]


async def test_requests_are_answered() -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        assert await channel.send(request(1, b"hello"), 1) == request(1, b"hello")[0][4:]
        futures = [channel.send(request(n, b"x" * n * 1000), n) for n in range(2, 100)]
        assert channel.in_flight == 98
        for n, response in zip(range(2, 100), await asyncio.gather(*futures), strict=True):
            assert response == struct.pack(">i", n) + b"x" * n * 1000
        assert channel.in_flight == 0
        channel.close()
        assert await channel.closed is None


@pytest.mark.parametrize("size", [0, 1000, 3 * MIB])
async def test_responses_stay_valid_after_later_ones(size: int) -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "localhost", server.port)
        bodies = [bytes([n]) * size for n in range(4)]
        responses = [await channel.send(request(n, body), n) for n, body in enumerate(bodies)]
        for n, response in enumerate(responses):
            assert response == struct.pack(">i", n) + bodies[n]
        channel.close()


async def test_a_request_without_an_answer() -> None:
    broker = Broker()
    async with serving("socket", broker) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        channel.send_oneway(request(1, b"oneway"))
        assert bytes(await channel.send(request(2), 2)) == struct.pack(">i", 2)
        assert broker.received == [b"oneway", b""]
        channel.close()


async def test_closing_fails_what_waits_and_what_comes_later() -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        waiting = channel.send(request(1, b"wait"), 1)
        channel.close()
        with pytest.raises(ChannelClosedError, match="was closed"):
            await waiting
        with pytest.raises(ChannelClosedError):
            await channel.send(request(2), 2)
        with pytest.raises(ChannelClosedError):
            channel.send_oneway(request(3))
        with pytest.raises(ChannelClosedError):
            await channel.drain()
        assert channel.is_closed
        assert await channel.closed is None
        channel.close()


async def test_a_broker_that_closes_fails_what_waits() -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        waiting = channel.send(request(1, b"close"), 1)
        with pytest.raises(ChannelClosedError, match=f"127.0.0.1:{server.port} closed the connect"):
            await waiting
        assert isinstance(await channel.closed, ChannelClosedError)


async def test_no_answer_in_time_closes_the_channel() -> None:
    clock = ManualClock()
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(
            machine(clock), "127.0.0.1", server.port, request_timeout=30
        )
        first = channel.send(request(1, b"wait"), 1)
        clock.advance(20)
        second = channel.send(request(2, b"wait"), 2)
        clock.advance(9.9)
        assert not channel.is_closed
        clock.advance(0.2)
        for waiting in (first, second):
            with pytest.raises(RequestTimeoutError):
                await waiting
        assert isinstance(await channel.closed, RequestTimeoutError)


async def test_a_request_may_have_its_own_shorter_timeout() -> None:
    clock = ManualClock()
    broker = Broker()
    async with serving("socket", broker) as server:
        channel = await Channel.connect(machine(clock), "127.0.0.1", server.port)
        slow = channel.send(request(1, b"wait"), 1)
        fast = channel.send(request(2, b"wait"), 2, timeout=1)
        clock.advance(1.1)
        for waiting in (slow, fast):
            with pytest.raises(RequestTimeoutError):
                await waiting


async def test_an_answer_in_time_moves_the_deadline_to_the_next_request() -> None:
    clock = ManualClock()
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(
            machine(clock), "127.0.0.1", server.port, request_timeout=30
        )
        await channel.send(request(1), 1)
        clock.advance(29)
        waiting = channel.send(request(2, b"wait"), 2)
        clock.advance(20)
        assert not channel.is_closed
        clock.advance(10)
        with pytest.raises(RequestTimeoutError):
            await waiting
        assert isinstance(await channel.closed, RequestTimeoutError)


async def test_whoever_gives_up_waiting_does_not_disturb_the_others() -> None:
    broker = Broker()
    async with serving("socket", broker) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        given_up = channel.send(request(1, b"wait"), 1)
        after = channel.send(request(2, b"after"), 2)
        await until(lambda: bool(broker.parked))
        given_up.cancel()
        broker.parked[0].complete(request(1, b"late"))
        assert await after == struct.pack(">i", 2) + b"after"
        channel.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (frame(struct.pack(">i", 99)), ProtocolError),
        (frame(b"abc"), ProtocolError),
        (struct.pack(">i", -1), FrameSizeError),
    ],
)
async def test_an_answer_that_makes_no_sense_closes_the_channel(
    answer: bytes, error: type[Exception]
) -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        with pytest.raises(error):
            await channel.send(request(1, b"raw " + answer), 1)
        assert isinstance(await channel.closed, error)


async def test_an_answer_nobody_asked_for_closes_the_channel() -> None:
    async with serving("socket", Broker()) as server:
        channel = await Channel.connect(machine(), "127.0.0.1", server.port)
        channel.send_oneway(request(1, b"raw " + request(5)[0]))
        assert isinstance(await channel.closed, ProtocolError)


async def test_a_port_without_a_listener_is_said_in_a_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1:{port}: "):
            await Channel.connect(machine(), "127.0.0.1", port)


async def test_a_name_without_an_address_is_said_in_a_sentence() -> None:
    with pytest.raises(ConnectionError, match=r"cannot find the address of no-such-host\.invalid"):
        # A name server that cannot be reached takes its time to be given up.
        await Channel.connect(machine(), "no-such-host.invalid", 9092, connect_timeout=120)


async def test_a_listener_that_does_not_accept_runs_into_the_timeout() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        queued = [socket.create_connection(address)]
        select.select([full], [], [])  # from now on the queue is as long as it may be
        for _ in range(2):
            queued.append(socket.socket())
            queued[-1].setblocking(False)
            queued[-1].connect_ex(address)
        with pytest.raises(TimeoutError, match="no connection to"):
            await Channel.connect(machine(), *address, connect_timeout=0.05)
        for sock in queued:
            sock.close()


async def test_writing_more_than_the_broker_takes_can_be_waited_for() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        channel = await Channel.connect(machine(), *listening.getsockname())
        accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
        accepted.setblocking(False)
        while channel._drained.is_set():
            channel.send_oneway([bytes(MIB)])
        draining = asyncio.create_task(channel.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        while not draining.done():
            await asyncio.get_running_loop().sock_recv(accepted, MIB)
        await draining
        accepted.close()
        assert isinstance(await channel.closed, ChannelClosedError)

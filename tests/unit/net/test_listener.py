from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from tests.support.connections import Peer, echo, until
from tests.support.logs import records_of
from tests.support.memory_network import frame

from moldau.machine.real.sockets.network import SocketNetwork
from moldau.net.connection import Handler, Pending, ServerConnection
from moldau.net.listener import ACCEPT_PAUSE, Listener, ListenerSettings
from moldau.net.quotas import ConnectionQuota, ConnectionQuotas, ConnectionQuotaSettings
from moldau.quotas.entity import ClientQuotaEntity
from moldau.quotas.manager import ClientQuotaManager, address_levels
from moldau.quotas.meters import Rate, Window
from moldau.testing.clock import ManualClock

Start = Callable[..., Listener]


class Clients:
    """Peers that are closed when the test ends."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    async def __call__(self, listener: Listener) -> Peer:
        self.peers.append(await Peer.connect(listener.port))
        return self.peers[-1]


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Clients]:
    clients = Clients()
    yield clients
    for peer in clients.peers:
        peer.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def start(clock: ManualClock) -> AsyncIterator[Start]:
    listeners: list[Listener] = []

    def start_one(
        handler: Handler = echo, host: str = "127.0.0.1", name: str = "PLAINTEXT", **options: Any
    ) -> Listener:
        listener = Listener(name, host, 0, handler, network=SocketNetwork(), clock=clock, **options)
        listener.start()
        listeners.append(listener)
        return listener

    yield start_one
    for listener in listeners:
        closing = asyncio.create_task(listener.close(0))
        while not closing.done():
            await asyncio.sleep(0)
            clock.advance(0)


def quotas(**of_broker: int) -> ConnectionQuotas:
    return ConnectionQuotas(ConnectionQuotaSettings(broker=ConnectionQuota(**of_broker)))


def of_listeners(
    broker: ConnectionQuota | None = None, **listeners: ConnectionQuota
) -> ConnectionQuotas:
    return ConnectionQuotas(
        ConnectionQuotaSettings(
            broker=broker or ConnectionQuota(), listeners=listeners, inter_broker_listener="INSIDE"
        )
    )


async def never(what: Awaitable[object]) -> None:
    """``what`` does not happen however long the loop runs."""
    task = asyncio.ensure_future(what)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_port_zero_becomes_a_real_port(clock: ManualClock) -> None:
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, echo, network=SocketNetwork(), clock=clock)
    assert listener.bind() == listener.port > 0
    await listener.close()


async def test_clients_are_let_in_with_start_and_not_before(
    clock: ManualClock, client: Clients
) -> None:
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, echo, network=SocketNetwork(), clock=clock)
    listener.bind()
    with pytest.raises(ConnectionRefusedError):
        await client(listener)
    listener.start()
    assert await (await client(listener)).ask(b"hello") == b"hello"
    await listener.close()


async def test_an_empty_host_listens_everywhere(start: Start, client: Clients) -> None:
    listener = start(host="")
    assert await (await client(listener)).ask(b"hello") == b"hello"


async def test_a_port_in_use_is_said_in_a_sentence(start: Start, clock: ManualClock) -> None:
    listener = start()
    second = Listener(
        "PLAINTEXT", "127.0.0.1", listener.port, echo, network=SocketNetwork(), clock=clock
    )
    with pytest.raises(
        OSError, match=f"cannot listen on 127.0.0.1:{listener.port}: Address already"
    ):
        second.bind()


async def test_a_host_that_does_not_exist_is_said_in_a_sentence(clock: ManualClock) -> None:
    listener = Listener(
        "PLAINTEXT", "no-such-host.invalid", 9092, echo, network=SocketNetwork(), clock=clock
    )
    with pytest.raises(OSError, match=r"cannot listen on no-such-host\.invalid:9092: "):
        listener.bind()


async def test_a_port_taken_between_binding_and_starting_is_said_in_a_sentence(
    start: Start, clock: ManualClock
) -> None:
    late = Listener("PLAINTEXT", "127.0.0.1", 0, echo, network=SocketNetwork(), clock=clock)
    late.bind()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", late.port))
        taken.listen()
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{late.port}: "):
            late.start()
    await late.close()


async def test_connections_are_announced_and_their_end_is_told(
    start: Start, client: Clients
) -> None:
    opened: list[ServerConnection] = []
    closed: list[ServerConnection] = []
    listener = start(on_open=opened.append, on_close=closed.append)
    peer = await client(listener)
    await peer.ask(b"hello")
    assert listener.connections == 1
    host, port = peer.sock.getsockname()
    assert opened[0].peer == f"{host}:{port}"
    assert opened[0].peer_host == "127.0.0.1"
    assert opened[0].listener == "PLAINTEXT"
    peer.close()
    await until(lambda: closed == opened)
    assert listener.connections == 0


async def test_socket_settings_are_kafkas(start: Start, client: Clients) -> None:
    opened: list[ServerConnection] = []
    settings = ListenerSettings(receive_buffer_bytes=50_000, send_buffer_bytes=60_000)
    listener = start(settings=settings, on_open=opened.append)
    await (await client(listener)).ask(b"hello")
    sock: socket.socket = opened[0]._transport._sock  # type: ignore[attr-defined]
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    # Linux doubles what is asked for.
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (60_000, 120_000)


async def test_a_full_broker_lets_new_connections_wait(
    start: Start, client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    listener = start(quotas=quotas(max_connections=2))
    first, _second = [await client(listener) for _ in range(2)]
    assert await first.ask(b"a") == b"a"
    third = await client(listener)
    await third.send(frame(b"c"))
    await never(third.read_frame())
    assert listener.connections == 2
    first.close()
    assert await third.read_frame() == b"c"
    assert "max.connections=2 is reached" in caplog.text


async def test_quotas_count_over_all_listeners(start: Start, client: Clients) -> None:
    shared = quotas(max_connections=1)
    one, other = start(quotas=shared), start(quotas=shared)
    first = await client(one)
    await first.ask(b"a")
    second = await client(other)
    await second.send(frame(b"b"))
    await never(second.read_frame())
    first.close()
    assert await second.read_frame() == b"b"


async def test_a_full_listener_keeps_nobody_from_another(
    start: Start, client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    shared = of_listeners(INSIDE=ConnectionQuota(), OUTSIDE=ConnectionQuota(max_connections=1))
    inside, outside = start(name="INSIDE", quotas=shared), start(name="OUTSIDE", quotas=shared)
    first = await client(outside)
    await first.ask(b"a")
    waiting = await client(outside)
    await waiting.send(frame(b"b"))
    assert await (await client(inside)).ask(b"c") == b"c"
    await never(waiting.read_frame())
    assert "listener.name.outside.max.connections=1 is reached" in caplog.text
    shared.configure(ConnectionQuotaSettings())
    assert await waiting.read_frame() == b"b"


async def test_brokers_reach_a_full_one_and_others_give_way(start: Start, client: Clients) -> None:
    shared = of_listeners(broker=ConnectionQuota(max_connections=2), OUTSIDE=ConnectionQuota(2))
    outside, inside = start(name="OUTSIDE", quotas=shared), start(name="INSIDE", quotas=shared)
    idle, busy = [await client(outside) for _ in range(2)]
    await idle.ask(b"a")
    for connection in outside._connections:
        connection.active = False
    await busy.ask(b"b")
    assert await (await client(inside)).ask(b"c") == b"c"
    assert await idle.is_closed()
    assert await busy.ask(b"d") == b"d"
    assert await (await client(inside)).ask(b"e") == b"e"
    assert await busy.is_closed()
    third = await client(inside)  # the broker's limit is also that of a listener without its own
    await third.send(frame(b"f"))
    await never(third.read_frame())


async def test_a_listener_alone_is_not_spared(start: Start, client: Clients) -> None:
    listener = start(name="INSIDE", quotas=of_listeners(broker=ConnectionQuota(1)))
    await (await client(listener)).ask(b"a")
    waiting = await client(listener)
    await waiting.send(frame(b"b"))
    await never(waiting.read_frame())
    assert listener.connections == 1


async def test_a_lower_limit_closes_what_is_idle_and_spares_who_waits_for_an_answer(
    start: Start, client: Clients
) -> None:
    shared = quotas()
    listener = start(lambda _connection, _request: Pending(), quotas=shared)
    idle, waiting = [await client(listener) for _ in range(2)]
    await waiting.send(frame(b"wait"))
    await until(lambda: [one.in_flight for one in listener._connections] == [0, 1])
    shared.configure(ConnectionQuotaSettings(broker=ConnectionQuota(max_connections=1)))
    assert await idle.is_closed()
    assert listener.connections == 1


async def test_a_listener_that_has_stopped_is_asked_for_no_room(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    shared = of_listeners(broker=ConnectionQuota(max_connections=1))
    outside = start(lambda _connection, _request: Pending(), name="OUTSIDE", quotas=shared)
    inside = start(name="INSIDE", quotas=shared)
    leaving = await client(outside)
    await leaving.send(frame(b"wait"))
    await until(lambda: [one.in_flight for one in outside._connections] == [1])
    outside.stop()
    waiting = await client(inside)  # there is no other listener any more
    await waiting.send(frame(b"a"))
    await never(waiting.read_frame())
    closing = asyncio.create_task(outside.close(5))
    await asyncio.sleep(0)
    clock.advance(5)
    await closing
    assert await waiting.read_frame() == b"a"


async def test_an_address_with_too_many_connections_is_refused(
    start: Start, client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    listener = start(quotas=ConnectionQuotas(ConnectionQuotaSettings(max_per_ip=1)))
    first = await client(listener)
    assert await first.ask(b"a") == b"a"
    assert await (await client(listener)).is_closed()
    assert "its address has max.connections.per.ip=1 already" in caplog.text
    first.close()
    await until(lambda: listener.connections == 0)
    assert await (await client(listener)).ask(b"b") == b"b"


async def test_an_override_goes_before_the_limit_per_address(start: Start, client: Clients) -> None:
    settings = ConnectionQuotaSettings(max_per_ip=0, overrides={"127.0.0.1": 2})
    listener = start(quotas=ConnectionQuotas(settings))
    for _ in range(2):
        assert await (await client(listener)).ask(b"a") == b"a"
    assert await (await client(listener)).is_closed()


def connection_rates(**quotas: float) -> ClientQuotaManager[Rate]:
    key = "connection_creation_rate"
    rates = ClientQuotaManager(key, Rate, Window(11, 1000), address_levels)
    for address, quota in quotas.items():
        rates.update(ClientQuotaEntity.of({"ip": address}), {key: quota})
    return rates


async def test_an_address_that_connects_too_fast_is_refused_after_a_while(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    rates = connection_rates(**{"127.0.0.1": 0.2})
    listener = start(quotas=ConnectionQuotas(rates=rates))
    friends = [await client(listener) for _ in range(2)]
    for friend in friends:
        assert await friend.ask(b"a") == b"a"
    throttled = await client(listener)
    await throttled.send(frame(b"b"))
    await never(throttled.read_frame())
    assert listener.connections == 2
    clock.advance(1)  # a second at most, though 5 would bring the rate down
    assert await throttled.is_closed()
    clock.advance(11)
    assert await (await client(listener)).ask(b"c") == b"c"


async def test_connections_that_come_too_fast_for_the_broker_wait(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    limited = quotas(max_creation_rate=1)
    listener = start(quotas=limited)
    # The rate is that of a window of ten seconds, however young it is.
    friends = [await client(listener) for _ in range(11)]
    for friend in friends:
        assert await friend.ask(b"a") == b"a"
    waiting = await client(listener)
    await waiting.send(frame(b"b"))
    await never(waiting.read_frame())
    assert listener.connections == 11
    clock.advance(1)
    assert await waiting.read_frame() == b"b"
    late = await client(listener)
    await late.send(frame(b"c"))
    await never(late.read_frame())
    limited.configure(ConnectionQuotaSettings())
    clock.advance(1)  # whoever waits already waits for a second at most
    assert await late.read_frame() == b"c"


async def test_connections_that_come_too_fast_for_a_listener_wait_there_only(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    shared = of_listeners(
        broker=ConnectionQuota(max_creation_rate=2),
        OUTSIDE=ConnectionQuota(max_creation_rate=1),
        INSIDE=ConnectionQuota(),
    )
    inside, outside = start(name="INSIDE", quotas=shared), start(name="OUTSIDE", quotas=shared)
    for _ in range(11):
        await (await client(outside)).ask(b"a")
    waiting = await client(outside)
    await waiting.send(frame(b"b"))
    for _ in range(30):  # brokers do not count for the broker, nor are they held up
        await (await client(inside)).ask(b"c")
    await never(waiting.read_frame())
    clock.advance(1)
    assert await waiting.read_frame() == b"b"


async def test_who_is_refused_for_the_rate_of_an_address_does_not_count_for_the_listener(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    settings = ConnectionQuotaSettings(broker=ConnectionQuota(max_creation_rate=1))
    limited = ConnectionQuotas(settings, rates=connection_rates(**{"127.0.0.1": 0.1}))
    listener = start(quotas=limited)
    await (await client(listener)).ask(b"a")
    refused = [await client(listener) for _ in range(30)]
    await until(lambda: len(listener._throttled) == len(refused))
    clock.advance(1)
    for peer in refused:
        assert await peer.is_closed()


async def test_a_broker_whose_connections_come_too_fast_can_be_closed(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    listener = start(quotas=quotas(max_creation_rate=0))
    await (await client(listener)).ask(b"a")
    waiting = await client(listener)
    await waiting.send(frame(b"b"))
    await never(waiting.read_frame())
    closing = asyncio.create_task(listener.close(0))
    await asyncio.sleep(0)
    clock.advance(1)
    await closing
    assert listener.connections == 0


async def test_closing_does_not_wait_for_connections_that_came_too_fast(
    start: Start, client: Clients
) -> None:
    rates = connection_rates(**{"127.0.0.1": 0.01})
    listener = start(quotas=ConnectionQuotas(rates=rates))
    throttled = await client(listener)
    await until(lambda: bool(listener._throttled))
    await listener.close()
    assert await throttled.is_closed()


async def test_idle_connections_are_closed_and_busy_ones_are_not(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    listener = start(settings=ListenerSettings(max_idle_ms=600_000))
    idle, busy = [await client(listener) for _ in range(2)]
    await idle.ask(b"a")
    for _ in range(14):
        clock.advance(50)
        assert await busy.ask(b"b") == b"b"
    assert await idle.is_closed()
    assert listener.connections == 1


async def test_a_connection_is_not_idle_before_its_time(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    listener = start(settings=ListenerSettings(max_idle_ms=1000))
    peer = await client(listener)
    await peer.ask(b"a")
    clock.advance(0.99)
    assert await peer.ask(b"b") == b"b"
    clock.advance(1.3)
    assert await peer.is_closed()


async def test_a_half_open_connection_with_a_parked_request_ends_as_idle(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    listener = start(lambda _connection, _request: Pending())
    peer = await client(listener)
    await peer.send(frame(b"wait for ever"))
    peer.end_of_requests()
    await until(lambda: listener.connections == 1)
    clock.advance(700)
    assert await peer.is_closed()


async def test_a_negative_idle_time_closes_nothing(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    listener = start(settings=ListenerSettings(max_idle_ms=-1))
    peer = await client(listener)
    await peer.ask(b"a")
    clock.advance(100_000)
    assert await peer.ask(b"b") == b"b"


async def test_running_out_of_descriptors_pauses_accepting(
    start: Start, client: Clients, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    listener = start()
    peer = await client(listener)
    await peer.ask(b"loop is warm")
    waiting = socket.socket()
    waiting.setblocking(False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(waiting.fileno())
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        await asyncio.get_running_loop().sock_connect(waiting, ("127.0.0.1", listener.port))
        await until(lambda: "cannot accept connections for now" in caplog.text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await peer.ask(b"still served") == b"still served"
    clock.advance(ACCEPT_PAUSE)
    second = Peer(waiting)
    client.peers.append(second)
    assert await second.ask(b"at last") == b"at last"


async def test_closing_answers_what_is_in_flight(start: Start, client: Clients) -> None:
    parked: list[Pending] = []

    def handler(_connection: ServerConnection, _request: memoryview) -> Pending:
        parked.append(Pending())
        return parked[-1]

    listener = start(handler)
    idle, waiting = [await client(listener) for _ in range(2)]
    await waiting.send(frame(b"wait"))
    await until(lambda: bool(parked))
    closing = asyncio.create_task(listener.close())
    assert await idle.is_closed()
    with pytest.raises(ConnectionRefusedError):
        await client(listener)
    assert not closing.done()
    parked[0].complete([frame(b"last answer")])
    assert await waiting.read_frame() == b"last answer"
    assert await waiting.is_closed()
    await closing
    assert listener.connections == 0


async def test_closing_waits_only_so_long(
    start: Start, client: Clients, clock: ManualClock
) -> None:
    parked: list[Pending] = []

    def handler(_connection: ServerConnection, _request: memoryview) -> Pending:
        parked.append(Pending())
        return parked[-1]

    listener = start(handler)
    peer = await client(listener)
    await peer.send(frame(b"wait for ever"))
    await until(lambda: bool(parked))
    closing = asyncio.create_task(listener.close(drain_timeout=5))
    await never(asyncio.shield(closing))
    clock.advance(5)
    await closing
    assert await peer.is_closed()


async def test_a_storm_of_garbage_leaves_few_lines(
    start: Start, client: Clients, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    listener = start()
    for _ in range(20):
        peer = await client(listener)
        await peer.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await peer.is_closed()
    assert len(records_of(caplog, "moldau.net")) == 5
    clock.advance(60)
    peer = await client(listener)
    await peer.send(b"GET / HTTP/1.1\r\n\r\n")
    assert await peer.is_closed()
    assert len(records_of(caplog, "moldau.net")) == 6
    assert "(15 similar lines were left out before this one)" in caplog.text

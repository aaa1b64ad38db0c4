"""What only a simulated network does: it is late, slow, cut and broken when it is told to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.testing.simulation.talker import Pair, Talker

from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.links import Quality
from moldau.testing.simulation.simulation import Simulation

Live = Callable[[Callable[[Pair], Awaitable[None]]], None]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


@pytest.fixture
def live(simulation: Simulation) -> Live:
    """Runs a story of two connected programs."""

    def run(story: Callable[[Pair], Awaitable[None]]) -> None:
        async def whole() -> None:
            pair = Pair(simulation)
            await pair.connect()
            await story(pair)

        simulation.run(whole())

    return run


def steady(**changes: float) -> Quality:
    """A network without chance."""
    quality = Quality(shortest=0.01, longest=0.01, slow=0, split=0)
    for name, value in changes.items():
        setattr(quality, name, value)
    return quality


# Delay and bandwidth -----------------------------------------------------------------------------


def test_bytes_take_their_time(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        start = simulation.time
        pair.send(b"hello")
        await asyncio.sleep(1)
        ((arrival, size),) = pair.server.arrivals
        assert arrival - start == pytest.approx(0.01, rel=1e-3)
        assert size == 5

    simulation.network.quality = steady()
    live(story)


def test_delays_are_drawn_between_the_shortest_and_the_longest(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        delays = []
        for _ in range(200):
            start = simulation.time
            pair.send(b"x")
            await asyncio.sleep(1)
            delays.append(pair.server.arrivals[-1][0] - start)
        assert 0.1 <= min(delays) < 0.12
        assert 0.18 < max(delays) <= 0.2 + 1e-6

    simulation.network.quality = steady(shortest=0.1, longest=0.2)
    live(story)


def test_some_packets_take_much_longer_and_hold_up_those_behind(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        for number in range(100):
            pair.send(b"%02d" % number)
            await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert bytes(pair.server.data) == b"".join(b"%02d" % number for number in range(100))
        assert any(size > 20 for _, size in pair.server.arrivals)

    simulation.network.quality = steady(slow=0.05, slowest=1.0)
    live(story)


def test_bandwidth_is_a_limit(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        start = simulation.time
        pair.send(bytes(100_000))
        await asyncio.sleep(20)
        took = pair.server.arrivals[-1][0] - start
        assert took == pytest.approx(10.0, rel=0.01)

    simulation.network.quality = steady(bytes_per_second=10_000)
    live(story)


def test_connections_between_two_hosts_share_the_bandwidth_but_not_the_ways_there_and_back(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        second = Talker()
        await pair.call(second, within=10)
        await asyncio.sleep(1)
        start = simulation.time
        pair.send(bytes(50_000))
        pair.in_client(lambda: second.transport.write([bytes(50_000)]))
        pair.answer(bytes(50_000))
        await asyncio.sleep(20)
        assert pair.server.arrivals[-1][0] - start == pytest.approx(10.0, rel=0.01)
        assert second.arrivals[-1][0] - start == pytest.approx(5.0, rel=0.01)

    simulation.network.quality = steady(bytes_per_second=10_000)
    live(story)


def test_packets_may_arrive_in_pieces(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        for _ in range(50):
            pair.send(b"0123456789")
            await asyncio.sleep(1)
        assert bytes(pair.server.data) == b"0123456789" * 50
        assert len(pair.server.arrivals) > 50

    simulation.network.quality = steady(split=0.5, longest=0.02)
    live(story)


def test_connections_overtake_each_other(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        second = Talker()
        await pair.call(second, within=10)
        overtaken = 0
        for _ in range(20):
            before = len(pair.server.data)
            pair.send(b"1")
            pair.in_client(lambda: second.transport.write([b"2"]))
            await asyncio.sleep(1)
            overtaken += pair.server.data[before:] == b"21"
        assert 0 < overtaken < 20

    simulation.network.quality = steady(longest=0.5)
    live(story)


def test_a_reader_that_rests_stops_its_peer_at_the_window(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation, server_reads=False)
        await pair.connect()
        pair.send(bytes(10_000))
        await asyncio.sleep(5)
        assert pair.client.transport.queued_bytes == 9_000  # type: ignore[attr-defined]
        pair.server.transport.resume_reading()
        await asyncio.sleep(5)
        assert pair.client.transport.queued_bytes == 0  # type: ignore[attr-defined]
        assert len(pair.server.data) == 10_000

    simulation.network.quality = steady(window=1000)
    simulation.run(story())


@settings(max_examples=30)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 3000), min_size=1, max_size=20),
    st.integers(1, 5000),
)
def test_all_bytes_arrive_in_order_whatever_the_network_is_like(
    seed: int, sizes: list[int], window: int
) -> None:
    with Simulation(seed) as simulation:
        simulation.network.quality = Quality(
            longest=0.5, slow=0.2, slowest=2.0, split=0.5, window=window
        )
        data = bytes(number % 251 for number in range(sum(sizes)))

        async def story() -> None:
            pair = Pair(simulation)
            await pair.connect()
            position = 0
            for size in sizes:
                pair.send(data[position : position + size])
                position += size
                await asyncio.sleep(simulation.network.random.random())
                if simulation.network.random.random() < 0.3:
                    simulation.network.cut("client", "server", both_ways=size % 2 == 0)
                if simulation.network.random.random() < 0.5:
                    simulation.network.heal()
            simulation.network.heal()
            pair.in_client(pair.client.transport.close)
            await asyncio.sleep(60 * (1 + len(data) // window))
            assert bytes(pair.server.data) == data
            assert pair.server.ended_at > 0
            assert pair.client.error is None

        simulation.run(story())


# Cuts --------------------------------------------------------------------------------------------


def test_nothing_passes_a_cut_and_everything_comes_later(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        simulation.network.cut("client", "server")
        pair.send(b"to the server")
        pair.answer(b"to the client")
        await asyncio.sleep(10)
        assert not pair.server.data
        assert not pair.client.data
        healed = simulation.time
        simulation.network.heal()
        pair.send(b", later")
        await asyncio.sleep(20)
        assert pair.server.data == b"to the server, later"
        assert pair.client.data == b"to the client"
        # TCP doubles the time between its attempts.
        assert healed <= pair.server.arrivals[0][0] <= healed + 10

    live(story)


def test_a_cut_one_way_leaves_the_other(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        simulation.network.cut("client", "server", both_ways=False)
        pair.send(b"to the server")
        pair.answer(b"to the client")
        await asyncio.sleep(10)
        assert not pair.server.data
        assert pair.client.data == b"to the client"
        simulation.network.heal()
        await asyncio.sleep(20)
        assert pair.server.data == b"to the server"

    live(story)


def test_a_cut_catches_what_is_under_way(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.send(b"x")
        simulation.network.cut("client", "server")
        await asyncio.sleep(10)
        assert not pair.server.data
        simulation.network.heal()
        await asyncio.sleep(20)
        assert pair.server.data == b"x"

    live(story)


def test_who_hears_nothing_back_sends_no_more_than_the_window(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        simulation.network.cut("server", "client", both_ways=False)
        pair.send(bytes(10_000))
        await asyncio.sleep(10)
        assert len(pair.server.data) == 1000
        simulation.network.heal()
        await asyncio.sleep(30)
        assert len(pair.server.data) == 10_000

    simulation.network.quality = steady(window=1000)
    live(story)


def test_nobody_connects_through_a_cut(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        for source, target in (("client", "server"), ("server", "client")):
            simulation.network.cut(source, target, both_ways=False)
            with pytest.raises(TimeoutError):
                await pair.call(Talker(), within=5)
            simulation.network.heal()
        simulation.network.cut("client", "server")
        simulation.loop.call_later(2.5, simulation.network.heal)
        start = simulation.time
        await pair.call(Talker(), within=10)
        assert simulation.time - start == pytest.approx(3.0, abs=0.1)  # the third attempt

    live(story)


def test_who_finds_the_backlog_full_gets_in_when_there_is_room(simulation: Simulation) -> None:
    async def story() -> None:
        server, client = simulation.node("server").boot(), simulation.node("client").boot()
        acceptor = server.network.bind("", 1)
        acceptor.listen(0, lambda: None)
        acceptor.pause()
        first, second = Talker(), Talker()
        await client.network.connect("server", 1, first, within=10)
        attempt = asyncio.ensure_future(client.network.connect("server", 1, second, within=10))
        await asyncio.sleep(2)
        assert not attempt.done()
        incoming = acceptor.accept()
        assert incoming is not None
        incoming.refuse()
        await attempt
        assert simulation.time < 10

    simulation.run(story())


# Resets ------------------------------------------------------------------------------------------


def test_a_reset_on_the_way_reaches_both_ends(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.send(b"under way")
        simulation.network.reset_connections("server", "client")
        await asyncio.sleep(1)
        for talker in (pair.server, pair.client):
            assert isinstance(talker.error, ConnectionResetError)
        assert not pair.server.data

    live(story)


def test_a_reset_spares_other_hosts(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        simulation.node("other").boot()
        simulation.network.reset_connections("other", "client")
        simulation.network.reset_connections("server", "other")
        pair.send(b"still here")
        await asyncio.sleep(1)
        assert pair.server.data == b"still here"

    live(story)


# Kills -------------------------------------------------------------------------------------------


def test_what_a_killed_process_has_sent_arrives_and_then_the_end(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        pair.send(b"last words")
        pair.client_node.kill()
        await asyncio.sleep(1)
        assert pair.server.data == b"last words"
        assert pair.server.ended_at > 0
        assert pair.server.error is None
        assert pair.client.lost_at < 0  # nobody is left to be told

    live(story)


def test_what_a_killed_process_had_queued_is_gone(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation, server_reads=False)
        await pair.connect()
        pair.send(bytes(10_000))
        pair.client_node.kill()
        pair.server.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(pair.server.data) == 1_000

    simulation.network.quality = steady(window=1000)
    simulation.run(story())


def test_a_process_killed_before_it_read_ends_or_resets() -> None:
    errors = set()
    for seed in range(20):
        with Simulation(seed) as simulation:

            async def story(simulation: Simulation = simulation) -> None:
                pair = Pair(simulation, server_reads=False)
                await pair.connect()
                pair.send(b"unread")
                await asyncio.sleep(1)
                pair.server_node.kill()
                await asyncio.sleep(1)
                assert pair.client.lost_at > 0
                errors.add(type(pair.client.error))

            simulation.run(story())
    assert errors == {type(None), ConnectionResetError}


def test_who_writes_to_a_killed_process_is_reset(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.connect()
        simulation.network.cut("server", "client", both_ways=False)
        pair.server_node.kill()
        pair.send(b"anybody there?")
        await asyncio.sleep(1)
        assert pair.client.lost_at < 0
        simulation.network.heal()
        await asyncio.sleep(5)
        assert pair.client.lost_at > 0

    simulation.run(story())


def test_those_who_wait_at_a_killed_process_are_reset(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.connect(accepts=False)
        pair.server_node.kill()
        await asyncio.sleep(1)
        assert isinstance(pair.client.error, ConnectionResetError)

    simulation.run(story())


def test_a_killed_process_frees_its_address(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.kill()
        with pytest.raises(ConnectionError, match="refused"):
            await pair.call(Talker(), within=5)
        machine = pair.server_node.boot()
        machine.network.bind("", Pair.PORT).listen(1, lambda: None)
        await pair.call(Talker(), within=5)

    live(story)


def test_what_a_dead_process_holds_refuses(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.kill()
        for attempt in (
            lambda: pair.server.transport.write([b"x"]),
            pair.server.transport.close,
            pair.server.transport.abort,
            pair.acceptor.accept,
            lambda: pair.acceptor.listen(1, lambda: None),
        ):
            with pytest.raises(ProcessEnded):
                attempt()
        await asyncio.sleep(1)
        assert not pair.client.data

    live(story)


# Pauses ------------------------------------------------------------------------------------------


def test_the_system_takes_bytes_for_a_paused_process(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.pause(10)
        start = simulation.time
        for _ in range(5):
            pair.send(b"x")
            await asyncio.sleep(1)
        assert not pair.server.data
        await asyncio.sleep(10)
        assert pair.server.arrivals == [(start + 10, 5)]

    live(story)


def test_a_receiver_is_called_in_its_own_process(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.send(b"x")
        pair.answer(b"y")
        await asyncio.sleep(1)
        pair.in_client(pair.client.transport.close)
        await asyncio.sleep(1)
        assert pair.server.processes == {pair.server_node.process}
        assert pair.client.processes == {pair.client_node.process}

    live(story)


# Power cuts --------------------------------------------------------------------------------------


def test_a_host_without_power_says_nothing(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.answer(b"under way")
        pair.server_node.power_cut()
        pair.send(b"anybody there?")
        await asyncio.sleep(100)
        assert pair.client.lost_at < 0
        assert not pair.client.data

    live(story)


def test_a_host_that_has_power_again_resets_what_it_does_not_know(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.power_cut()
        pair.send(b"anybody there?")
        await asyncio.sleep(5)
        assert pair.client.lost_at < 0
        up_at = simulation.time
        pair.server_node.boot()
        await asyncio.sleep(10)
        assert isinstance(pair.client.error, ConnectionResetError)
        assert up_at < pair.client.lost_at < up_at + 6  # when the system sends it again

    live(story)


def test_who_says_nothing_to_a_host_that_was_off_hears_nothing(
    simulation: Simulation, live: Live
) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.power_cut()
        await asyncio.sleep(5)
        pair.server_node.boot()
        await asyncio.sleep(50)
        assert pair.client.lost_at < 0
        pair.send(b"anybody there?")
        await asyncio.sleep(1)
        assert isinstance(pair.client.error, ConnectionResetError)

    live(story)


def test_those_who_wait_at_a_host_without_power_hear_nothing(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.connect(accepts=False)
        pair.server_node.power_cut()
        await asyncio.sleep(50)
        assert pair.client.lost_at < 0

    simulation.run(story())


def test_nobody_connects_to_a_host_without_power(simulation: Simulation, live: Live) -> None:
    async def story(pair: Pair) -> None:
        pair.server_node.power_cut()
        with pytest.raises(TimeoutError):
            await pair.call(Talker(), within=5)
        pair.server_node.boot()
        with pytest.raises(ConnectionError, match="refused"):
            await pair.call(Talker(), within=5)

    live(story)


def test_many_connections_leave_nothing_behind(simulation: Simulation) -> None:
    async def story() -> None:
        server, client = simulation.node("server").boot(), simulation.node("client").boot()
        acceptor = server.network.bind("", 1)

        def let_in() -> None:
            incoming = acceptor.accept()
            assert incoming is not None
            incoming.open(Talker())

        acceptor.listen(10, let_in)
        for _ in range(500):
            transport = await client.network.connect("server", 1, Talker(), within=5)
            transport.close()
            await asyncio.sleep(1)
        assert len(simulation.network._hosts["server"]._ends) < 200

    simulation.run(story())

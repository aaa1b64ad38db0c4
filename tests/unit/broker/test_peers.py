"""Connections between brokers: kept, authenticated, and what becomes of them in trouble."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.unit.broker.peers_world import World, registration

from moldau.broker.controller_requests import CALLS
from moldau.broker.peers import KEPT_FOR_S, MOST_KEPT, UnreachableError
from moldau.errors import ErrorCode, KafkaError
from moldau.net import ServerConnection
from moldau.request_errors import ClientError, ConnectionLostError, TimedOutError
from moldau.wire.private import PrivateApi


def test_requests_share_a_connection_that_is_kept() -> None:
    world = World()

    async def story() -> None:
        assert [await world.call(number) for number in range(3)] == [0, 1, 2]
        assert [each.broker_id for each in world.other.opened] == [1]

    world.run(story)


def test_requests_at_one_time_do_not_wait_for_each_other() -> None:
    world = World()

    async def story() -> None:
        first = asyncio.Event()
        waits = iter([first.wait(), asyncio.sleep(0)])

        async def before_answer() -> None:
            await next(waits)

        world.other.before_answer = before_answer
        slow = asyncio.ensure_future(world.call(1))
        await asyncio.sleep(0.5)
        assert await world.call(2) == 2
        first.set()
        assert await slow == 1
        assert len(world.other.opened) == 2

    world.run(story)


def test_there_is_an_end_to_connections_and_to_waiting_for_one() -> None:
    world = World()

    async def story() -> None:
        world.other.before_answer = asyncio.Event().wait  # type: ignore[assignment]
        calls = [asyncio.ensure_future(world.call(each)) for each in range(MOST_KEPT + 3)]
        await asyncio.wait(calls)
        failures = [type(call.exception()) for call in calls]
        assert failures == [TimedOutError] * MOST_KEPT + [UnreachableError] * 3
        assert len(world.other.opened) == MOST_KEPT

    world.run(story)


def test_unused_connections_are_closed_and_forgotten() -> None:
    world = World()

    async def story() -> None:
        await world.call()
        await asyncio.sleep(3 * KEPT_FOR_S)
        assert world.other.opened[0].closed
        assert not world.peers._peers
        assert await world.call(7) == 7

    world.run(story)


def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    world = World()

    async def story() -> None:
        await world.call()
        world.other.opened[0].close()
        await asyncio.sleep(1)
        assert await world.call(7) == 7

    world.run(story)


def test_the_next_life_of_a_broker_gets_connections_of_its_own() -> None:
    world = World()

    async def story() -> None:
        await world.call(epoch=5)
        await world.call(epoch=6)
        await asyncio.sleep(1)
        assert [each.closed for each in world.other.opened] == [True, False]
        # Whoever has not heard of it yet gets an answer, over a connection that is not kept.
        await world.call(epoch=5)
        await asyncio.sleep(1)
        assert [each.closed for each in world.other.opened] == [True, False, True]

    world.run(story)


def test_a_request_to_a_life_that_ends_meanwhile_leaves_nothing_behind() -> None:
    world = World()

    async def story() -> None:
        answered = asyncio.Event()
        waits = iter([answered.wait(), asyncio.sleep(0)])

        async def before_answer() -> None:
            await next(waits)

        world.other.before_answer = before_answer
        old = asyncio.ensure_future(world.call(1, epoch=5))
        await asyncio.sleep(0.5)
        await world.call(2, epoch=6)
        answered.set()
        assert await old == 1
        await asyncio.sleep(1)
        assert [each.closed for each in world.other.opened] == [True, False]

    world.run(story)


def test_a_broker_that_restarts_at_once_is_found_again() -> None:
    world = World()

    async def story() -> None:
        await world.call(epoch=5)
        world.other.node.kill()
        world.other.start()
        assert await world.call(3, epoch=6) == 3

    world.run(story)


def test_nobody_listens() -> None:
    world = World()

    async def story() -> None:
        world.other.node.kill()
        with pytest.raises(UnreachableError):
            await world.call()
        with pytest.raises(UnreachableError):
            await world.peers.open(registration(), "test")

    world.run(story)


def test_a_broker_without_the_listener_is_unreachable() -> None:
    world = World()

    async def story() -> None:
        with pytest.raises(UnreachableError, match="has no listener PLAINTEXT"):
            await world.peers.open(registration(listener="INTERNAL"), "test")

    world.run(story)


def test_who_cannot_be_reached_is_not_tried_all_the_time() -> None:
    world = World()
    attempts: list[float] = []

    async def story() -> None:
        connect = world.machine.network.connect

        async def counted(*args: object, **named: object) -> object:
            attempts.append(world.time)
            return await connect(*args, **named)  # type: ignore[arg-type]

        world.machine.network.connect = counted  # type: ignore[method-assign, assignment]
        world.other.node.kill()
        while world.time < 20:
            with pytest.raises(UnreachableError):
                await world.peers.open(registration(), "test")
        assert 15 <= len(attempts) <= 40
        world.other.start()
        await world.call()

    world.run(story)


def test_a_peer_that_is_cut_off_in_the_middle_is_given_up_in_time() -> None:
    """Nobody knows what became of the request, and the half-open connection is not used again."""
    world = World()

    async def story() -> None:
        await world.call()
        world.simulation.network.cut("here", "other")
        before = world.time
        with pytest.raises(TimedOutError):
            await world.call(within=2)
        assert world.time - before == pytest.approx(2)
        with pytest.raises(UnreachableError):
            await world.call(within=2)
        assert world.time - before == pytest.approx(4, abs=0.5)
        world.simulation.network.heal()
        assert await world.call(4) == 4

    world.run(story)


def test_a_peer_that_takes_connections_and_says_nothing_is_given_up_in_time() -> None:
    world = World()

    async def story() -> None:
        world.other.handler = lambda _connection, _frame: None
        before = world.time
        with pytest.raises(UnreachableError, match="in time"):
            await world.call(within=1.5)
        assert world.time - before == pytest.approx(1.5, abs=0.1)

    world.run(story)


def test_a_connection_that_is_lost_in_the_middle() -> None:
    world = World()

    async def story() -> None:
        await world.call()
        world.other.before_answer = asyncio.Event().wait  # type: ignore[assignment]
        call = asyncio.ensure_future(world.call())
        await asyncio.sleep(0.5)
        world.simulation.network.reset_connections("here", "other")
        with pytest.raises(ConnectionLostError) as lost:
            await call
        assert not isinstance(lost.value, UnreachableError)

    world.run(story)


@pytest.mark.parametrize(
    "answer", [b"", b"\xc1", b"HTTP/1.1 400", b"\x93\x00\xc0\xa3abc", b"\x91\x00"]
)
def test_a_peer_that_answers_garbage(answer: bytes) -> None:
    world = World()

    async def story() -> None:
        await world.call()

        def garbage(_connection: ServerConnection, frame: memoryview) -> list[bytes]:
            body = bytes(frame[4:8]) + answer
            return [len(body).to_bytes(4, "big") + body]

        world.other.handler = garbage
        with pytest.raises(ClientError) as failed:
            await world.call()
        assert not isinstance(failed.value, UnreachableError)
        world.other.handler = world.other.handle
        await asyncio.sleep(0.1)
        assert world.other.opened[0].closed
        assert await world.call(9) == 9

    world.run(story)


def test_a_caller_that_gives_up_does_not_leave_its_answer_to_the_next() -> None:
    world = World()

    async def story() -> None:
        release = asyncio.Event()
        world.other.before_answer = release.wait  # type: ignore[assignment]
        call = asyncio.ensure_future(world.call(1))
        await asyncio.sleep(0.5)
        call.cancel()
        release.set()
        assert await world.call(2) == 2

    world.run(story)


def test_an_error_that_the_peer_answers_is_the_callers_and_leaves_the_connection() -> None:
    world = World()

    async def story() -> None:
        for _ in range(3):
            with pytest.raises(KafkaError) as answered:
                await world.peers.call(
                    registration(),
                    PrivateApi.CONTROLLER_REQUEST,
                    {"type": "NextProducerIdBlock", "broker": 1},
                    answer=None,
                    within=1.0,
                )
            assert answered.value.code is ErrorCode.NOT_CONTROLLER
            assert not isinstance(answered.value, ClientError)
        assert len(world.other.opened) == 1

    world.run(story)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"secret": "another"}, "cluster secret"),
        ({"node_id": 3}, "This is broker 3, not broker 2"),
    ],
)
def test_brokers_that_do_not_accept_each_other_say_so_a_few_times(
    other: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(**other)

    async def story() -> None:
        with caplog.at_level(logging.WARNING):
            for _ in range(30):
                with pytest.raises(UnreachableError, match=words):
                    await world.call()

    world.run(story)
    lines = [record.getMessage() for record in caplog.records]
    assert any("broker.peers" in record.name for record in caplog.records)
    assert any("is not accepted as a broker" in line for line in lines)
    assert all(words in line for line in lines)
    assert len(lines) <= 4


def test_who_guesses_has_to_wait_for_the_answer_and_to_connect_again() -> None:
    world = World(secret="another")

    async def story() -> None:
        before = world.time
        with pytest.raises(UnreachableError):
            await world.peers.open(registration(), "test")
        assert world.time - before > 0.1
        await asyncio.sleep(0.1)
        assert world.other.opened[0].closed

    world.run(story)


def test_private_requests_come_after_authentication() -> None:
    """An update over a connection that has shown nothing ends it, and is not applied."""
    world = World()

    async def story() -> None:
        await world.call()
        world.other.opened[0].broker_id = -1
        with pytest.raises(ConnectionLostError):
            await world.call()
        assert len(world.other.updates) == 1

    world.run(story)


def test_what_brokers_ask_of_each_other_is_counted_and_timed() -> None:
    world = World()

    async def story() -> None:
        world.other.before_answer = lambda: asyncio.sleep(0.5)
        await world.call()
        await world.call()
        block = CALLS["next_producer_id_block"].ask(1)
        with pytest.raises(KafkaError):
            await world.peers.call(
                registration(), PrivateApi.CONTROLLER_REQUEST, block, answer=None, within=3.0
            )
        private = world.other.private
        assert private.requests == {
            "AuthenticateBroker": 2,
            "BrokerUpdate": 2,
            "NextProducerIdBlock": 1,
        }
        assert round(private.time_s["BrokerUpdate"], 2) == 1.0

    world.run(story)


def test_only_the_controller_itself_speaks_for_the_controller() -> None:
    world = World()

    async def story() -> None:
        await world.call()
        world.other.opened[0].broker_id = 3
        with pytest.raises(ConnectionLostError):
            await world.call()

    world.run(story)


def test_a_caller_without_time_is_no_reason_for_others_to_wait() -> None:
    world = World()

    async def story() -> None:
        for _ in range(10):
            with pytest.raises(UnreachableError):
                await world.call(within=0.0)
        before = world.time
        assert await world.call(5) == 5
        assert world.time - before < 0.3

    world.run(story)


def test_nothing_is_asked_after_the_end() -> None:
    world = World()

    async def story() -> None:
        await world.call()
        world.peers.close()
        with pytest.raises(UnreachableError):
            await world.call()
        await asyncio.sleep(1)
        assert world.other.opened[0].closed
        assert not world.peers._peers

    world.run(story)

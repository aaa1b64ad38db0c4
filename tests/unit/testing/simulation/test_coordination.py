"""Sessions on a store elsewhere: the contract in virtual time, and what breaks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from inspect import signature
from typing import Any

import pytest
from tests.unit.coordination.contract import CoordinationContract, Watcher

from moldau.coordination.errors import ConnectionLostError, SessionExpiredError
from moldau.coordination.store import CoordinationStore, Create, EventType, WatchEvent
from moldau.testing.simulation.coordination import SimulatedEnsemble
from moldau.testing.simulation.remote_session import RemoteSession
from moldau.testing.simulation.simulation import Simulation


def contract() -> Iterator[Any]:
    """Every test of the contract, by name, with the arguments that it is given."""
    for name, test in vars(CoordinationContract).items():
        if name.startswith("test_"):
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            names, values = marks[0].args if marks else ((), [()])
            for number, value in enumerate(values):
                one = isinstance(names, str)
                arguments = {names: value} if one else dict(zip(names, value, strict=True))
                yield pytest.param(name, arguments, id=f"{name}-{number}")


class SimulatedCluster:
    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble

    async def session(self) -> CoordinationStore:
        return self._ensemble.session()

    async def expire(self, session: CoordinationStore) -> None:
        assert isinstance(session, RemoteSession)
        await session.expire()


@pytest.mark.parametrize(("name", "given"), [*contract()])
def test_the_contract_of_coordination_holds(name: str, given: dict[str, Any]) -> None:
    test = getattr(CoordinationContract(), name)

    async def scenario() -> None:
        ensemble = SimulatedEnsemble(simulation)
        await ensemble.start()
        fixtures: dict[str, Any] = {
            "cluster": SimulatedCluster(ensemble),
            "store": ensemble.session(),
            "other": ensemble.session(),
        }
        wanted = [name for name in signature(test).parameters if name in fixtures]
        await test(**given, **{name: fixtures[name] for name in wanted})

    with Simulation(1) as simulation:
        simulation.run(scenario())


def story(test: Callable[[SimulatedEnsemble], Awaitable[None]]) -> Callable[[], None]:
    """A test in the time of a world that has an ensemble."""

    @wraps(test)
    def run() -> None:
        async def scenario() -> None:
            ensemble = SimulatedEnsemble(simulation)
            await ensemble.start()
            await test(ensemble)

        with Simulation(1) as simulation:
            simulation.run(scenario())

    del run.__wrapped__  # pytest would look for its arguments
    return run


async def connected(ensemble: SimulatedEnsemble) -> RemoteSession:
    session = ensemble.session()
    await session.exists("/")
    return session


@story
async def test_messages_take_their_time(ensemble: SimulatedEnsemble) -> None:
    ensemble.slowest = 10.0
    ensemble.session_timeout = 60.0
    loop = asyncio.get_running_loop()
    before = loop.time()
    await ensemble.session().create("/a")
    assert 1.0 < loop.time() - before < 20.1


@story
async def test_a_read_is_made_again_on_the_next_connection(ensemble: SimulatedEnsemble) -> None:
    session = ensemble.session()
    await session.create("/a", b"one")
    reading = asyncio.ensure_future(session.get("/a"))
    await asyncio.sleep(0)
    session.lose_connection(2.0)
    assert (await reading)[0] == b"one"
    assert asyncio.get_running_loop().time() > 2.0


@story
async def test_nobody_learns_whether_a_change_was_made_when_the_connection_broke(
    ensemble: SimulatedEnsemble,
) -> None:
    session = await connected(ensemble)
    outcomes: set[tuple[bool, ...]] = set()
    for number in range(50):
        names = [f"/{number}-{part}" for part in range(2)]
        writing = asyncio.ensure_future(session.multi_many([[Create(name)] for name in names]))
        await asyncio.sleep(0)
        session.lose_connection()
        answers = await writing
        assert all(isinstance(answer, ConnectionLostError) for answer in answers)
        outcomes.add(tuple([await session.exists(name) is not None for name in names]))
    # Of what was under way the first part gets through: nothing, some, or all.
    assert outcomes == {(False, False), (True, False), (True, True)}


@story
async def test_a_change_waits_for_a_connection(ensemble: SimulatedEnsemble) -> None:
    session = ensemble.session()
    session.lose_connection(2.0)
    await asyncio.sleep(1.0)
    await session.create("/a")
    assert asyncio.get_running_loop().time() > 2.0


@story
async def test_watches_tell_what_happened_while_nobody_could_hear(
    ensemble: SimulatedEnsemble,
) -> None:
    session, other = ensemble.session(), ensemble.session()
    data, children, absent, still = Watcher(), Watcher(), Watcher(), Watcher()
    await session.create("/a")
    await session.create("/still")
    await session.get("/a", data)
    await session.children("/a", children)
    await session.exists("/absent", absent)
    await session.get("/still", still)
    session.lose_connection(1.0)
    await asyncio.sleep(0)
    await other.set("/a", b"new")
    await other.create("/a/b")
    await other.create("/absent")
    assert await session.exists("/absent") is not None
    assert await data.next() == WatchEvent(EventType.CHANGED, "/a")
    assert await children.next() == WatchEvent(EventType.CHILDREN, "/a")
    assert await absent.next() == WatchEvent(EventType.CREATED, "/absent")
    assert not still.fired
    await other.set("/still", b"new")
    assert await still.next() == WatchEvent(EventType.CHANGED, "/still")


@story
async def test_a_session_survives_a_short_break(ensemble: SimulatedEnsemble) -> None:
    session = ensemble.session()
    await session.create("/e", ephemeral=True)
    session.lose_connection(ensemble.session_timeout / 2)
    await asyncio.sleep(ensemble.session_timeout * 3)
    assert await session.exists("/e") is not None


@story
async def test_a_session_is_over_after_a_long_break_and_its_owner_hears_of_it_on_return(
    ensemble: SimulatedEnsemble,
) -> None:
    session, other = ensemble.session(), ensemble.session()
    over: list[float] = []
    session.on_expired(lambda: over.append(asyncio.get_running_loop().time()))
    await session.create("/e", ephemeral=True)
    session.lose_connection(ensemble.session_timeout * 3)
    await asyncio.sleep(ensemble.session_timeout * 2)
    assert await other.exists("/e") is None
    assert not over
    with pytest.raises(SessionExpiredError):
        await session.get("/e")
    assert over == [pytest.approx(ensemble.session_timeout * 3, abs=0.1)]
    assert ensemble.sessions == [other]


def test_what_a_dead_process_had_registered_outlives_it_until_the_timeout() -> None:
    async def scenario() -> None:
        ensemble = SimulatedEnsemble(simulation)
        await ensemble.start()
        node, other = simulation.node("registered"), ensemble.session()
        node.boot()

        async def register() -> None:
            await ensemble.session().create("/e", ephemeral=True)

        await node.run(register())
        node.kill()
        await asyncio.sleep(ensemble.session_timeout * 0.9)
        assert await other.exists("/e") is not None
        await asyncio.sleep(ensemble.session_timeout * 0.2)
        assert await other.exists("/e") is None
        assert len(ensemble.sessions) == 1

    with Simulation(1) as simulation:
        simulation.run(scenario())


def test_a_process_that_is_paused_for_too_long_finds_its_session_over() -> None:
    async def scenario() -> None:
        ensemble = SimulatedEnsemble(simulation)
        await ensemble.start()
        node, over = simulation.node("paused"), asyncio.Event()
        node.boot()

        async def register() -> None:
            ensemble.session().on_expired(over.set)

        await node.run(register())
        node.pause(ensemble.session_timeout * 2)
        await asyncio.sleep(ensemble.session_timeout * 1.9)
        assert not ensemble.sessions
        assert not over.is_set()
        await asyncio.sleep(ensemble.session_timeout * 0.2)
        assert over.is_set()

    with Simulation(1) as simulation:
        simulation.run(scenario())


# The store's own process ends


async def begin_again(ensemble: SimulatedEnsemble, *, power: bool) -> None:
    if power:
        ensemble.power_cut()
    else:
        ensemble.kill()
    await asyncio.sleep(1.0)
    await ensemble.start()


@pytest.mark.parametrize("power", [False, True])
def test_sessions_and_their_nodes_outlive_the_store(power: bool) -> None:
    @story
    async def scenario(ensemble: SimulatedEnsemble) -> None:
        session, other = ensemble.session(), ensemble.session()
        gone = Watcher()
        session.on_expired(lambda: pytest.fail("the session is over"))
        await session.create("/e", b"here", ephemeral=True)
        await other.exists("/e", gone)
        await begin_again(ensemble, power=power)
        await asyncio.sleep(ensemble.session_timeout * 3)
        data, stat = await other.get("/e")
        assert (data, stat.ephemeral_owner) == (b"here", session.session_id)
        assert not gone.fired
        await session.close()
        assert await gone.next() == WatchEvent(EventType.DELETED, "/e")
        assert ensemble.sessions == [other]

    scenario()


@story
async def test_changes_and_reads_wait_while_the_store_is_down(ensemble: SimulatedEnsemble) -> None:
    session = await connected(ensemble)
    ensemble.kill()
    await asyncio.sleep(0.5)
    changing = asyncio.ensure_future(session.create("/a", b"1"))
    reading = asyncio.ensure_future(session.exists("/"))
    await asyncio.sleep(2.0)
    assert not changing.done()
    assert not reading.done()
    await ensemble.start()
    assert await changing == "/a"
    assert await reading is not None


@story
async def test_a_session_may_begin_while_the_store_is_down(ensemble: SimulatedEnsemble) -> None:
    ensemble.kill()
    session = ensemble.session()
    await asyncio.sleep(2.0)
    await ensemble.start()
    await session.create("/e", ephemeral=True)
    assert ensemble.sessions == [session]


@story
async def test_who_does_not_come_back_has_one_timeout_of_grace(ensemble: SimulatedEnsemble) -> None:
    session, other = await connected(ensemble), ensemble.session()
    await session.create("/e", ephemeral=True)
    session.lose_connection(1000.0)
    ensemble.kill()
    await asyncio.sleep(ensemble.session_timeout * 10)
    await ensemble.start()
    session.lose_connection(1000.0)
    await asyncio.sleep(ensemble.session_timeout * 0.9)
    assert await other.exists("/e") is not None
    await asyncio.sleep(ensemble.session_timeout * 0.3)
    assert await other.exists("/e") is None
    assert ensemble.sessions == [other]


@story
async def test_a_store_that_was_paused_blames_nobody_for_its_silence(
    ensemble: SimulatedEnsemble,
) -> None:
    session, other = ensemble.session(), ensemble.session()
    await session.create("/e", ephemeral=True)
    ensemble.node.pause(ensemble.session_timeout * 3)
    await asyncio.sleep(ensemble.session_timeout * 5)
    assert await other.exists("/e") is not None


@story
async def test_the_store_may_end_at_any_step(ensemble: SimulatedEnsemble) -> None:
    """Killed, or without power, in the middle of a write: what was acknowledged is there."""
    session = ensemble.session()
    await session.create("/e", ephemeral=True)
    await session.create("/q")
    made: list[str] = []
    for step in range(40):
        ensemble.node.crash_after(step % 5, power=step % 2 == 0)
        number = 0
        while ensemble.is_running:
            number += 1
            writing = asyncio.ensure_future(session.create(f"/q/{step}-{number}"))
            await asyncio.wait([writing], timeout=1.0)
            if writing.done() and writing.exception() is None:
                made.append(writing.result()[3:])
        await ensemble.start()
        stat = await session.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == session.session_id
        assert set(made) <= set(await session.children("/q"))
    assert len(made) > 10

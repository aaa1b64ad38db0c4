"""The coordination contract through kazoo, on a real ZooKeeper and on our own server, and what is
theirs: broken connections, sessions that end, servers that are killed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from tests.support.coordination import CoordinationProcess
from tests.support.process import free_port
from tests.support.proxy import CuttableWay
from tests.support.zookeeper import ZooKeeper
from tests.unit.coordination.contract import CoordinationContract, Watcher

from moldau.coordination.ensemble import Ensemble, EnsembleSettings
from moldau.coordination.errors import (
    ConnectionLostError,
    EnsembleError,
    NodeExistsError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.kazoo_reads import MultiRead
from moldau.coordination.store import CoordinationStore, Create, EventType, WatchEvent
from moldau.coordination.zookeeper import IN_FLIGHT, ZooKeeperStore

PATIENCE_S = 90.0
SESSION_MS = 60_000
"""Longer than any pause of a busy test machine."""

Server = ZooKeeper | CoordinationProcess
SERVERS: dict[str, type[Server]] = {"zookeeper": ZooKeeper, "moldau": CoordinationProcess}

_roots = count(1)


class ZooKeeperCluster:
    """A part of the tree for one test; each session has its own way to the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._root = f"/test-{next(_roots)}"
        self._ways: dict[ZooKeeperStore, CuttableWay] = {}

    async def session(self) -> ZooKeeperStore:
        way = await CuttableWay("127.0.0.1", self._server.port).start()
        store = await ZooKeeperStore.open(way.address + self._root, session_timeout_ms=SESSION_MS)
        self._ways[store] = way
        return store

    def way(self, store: CoordinationStore) -> CuttableWay:
        assert isinstance(store, ZooKeeperStore)
        return self._ways[store]

    async def expire(self, session: CoordinationStore) -> None:
        """Nobody can end another's session but by taking it over; the owner hears of it later."""
        assert isinstance(session, ZooKeeperStore)
        self.way(session).cut()
        client = session._client

        def take_over_and_close() -> None:
            identity = client._session_id, client._session_passwd
            thief = KazooClient(self._server.address, client_id=identity)
            thief.start(PATIENCE_S)
            thief.stop()
            thief.close()

        await asyncio.to_thread(take_over_and_close)
        self.way(session).mend()

    async def close(self) -> None:
        for store, way in self._ways.items():
            way.mend()
            await store.close()
            await way.close()


@pytest.fixture(scope="module", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> type[Server]:
    return SERVERS[request.param]


@pytest.fixture(scope="module")
def server(kind: type[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with kind(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
async def cluster(server: Server) -> AsyncIterator[ZooKeeperCluster]:
    found = ZooKeeperCluster(server)
    yield found
    await found.close()


@pytest.fixture
async def store(cluster: ZooKeeperCluster) -> ZooKeeperStore:
    return await cluster.session()


@pytest.fixture
async def other(cluster: ZooKeeperCluster) -> ZooKeeperStore:
    return await cluster.session()


async def test_a_session_lasts_as_long_as_the_store_agrees_to(server: Server) -> None:
    a_day_ms = 24 * 3_600_000
    store = await ZooKeeperStore.open(
        server.address, session_timeout_ms=a_day_ms, connection_timeout_ms=round(PATIENCE_S * 1000)
    )
    try:
        await store.exists("/")
        assert 0 < store.session_timeout_ms < a_day_ms
    finally:
        await store.close()


class TestContract(CoordinationContract):
    pass


async def suspended(store: ZooKeeperStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store._connected.is_set():  # noqa: ASYNC110 - nobody else needs to be told
            await asyncio.sleep(0.001)


async def test_a_session_and_its_nodes_survive_a_broken_connection(
    cluster: ZooKeeperCluster, store: ZooKeeperStore, other: ZooKeeperStore
) -> None:
    await store.create("/mine", b"x", ephemeral=True)
    session_id = store.session_id
    cluster.way(store).cut()
    await suspended(store)
    waiting = asyncio.ensure_future(store.get("/mine"))
    change = asyncio.ensure_future(store.set("/mine", b"y"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert not change.done()
    cluster.way(store).mend()
    assert (await waiting)[0] in (b"x", b"y")
    await change
    assert store.session_id == session_id
    data, stat = await other.get("/mine")
    assert (data, stat.ephemeral_owner) == (b"y", session_id)


async def test_a_server_that_takes_a_connection_and_says_nothing_does_not_cost_the_session(
    server: Server,
) -> None:
    way = await CuttableWay("127.0.0.1", server.port).start()
    store = await ZooKeeperStore.open(way.address, session_timeout_ms=20_000)
    await store.create("/spared", ephemeral=True)
    session_id = store.session_id
    way.cut()
    await suspended(store)
    way.mend(silences=1)
    stat = await store.exists("/spared")
    assert stat is not None
    assert stat.ephemeral_owner == store.session_id == session_id
    await store.close()
    await way.close()


async def test_watches_hear_of_what_happened_while_the_connection_was_broken(
    cluster: ZooKeeperCluster, store: ZooKeeperStore, other: ZooKeeperStore
) -> None:
    for path in ("/changed", "/deleted", "/parent", "/same", "/gone"):
        await store.create(path)
    watchers = {path: Watcher() for path in ("/changed", "/deleted", "/new", "/same")}
    for path, watcher in watchers.items():
        await store.exists(path, watcher)
    children, gone, quiet = Watcher(), Watcher(), Watcher()
    await store.children("/parent", children)
    await store.children("/gone", gone)
    await store.children("/same", quiet)
    cluster.way(store).cut()
    await suspended(store)
    await other.set("/changed", b"x")
    await other.delete("/deleted")
    await other.create("/new")
    await other.create("/parent/child")
    await other.delete("/gone")
    cluster.way(store).mend()
    assert (await store.get("/changed"))[0] == b"x"  # the events are there before any answer
    fired = {path: watcher.fired for path, watcher in watchers.items()}
    assert fired == {"/changed": 1, "/deleted": 1, "/new": 1, "/same": 0}
    assert await watchers["/changed"].next() == WatchEvent(EventType.CHANGED, "/changed")
    assert await watchers["/deleted"].next() == WatchEvent(EventType.DELETED, "/deleted")
    assert await watchers["/new"].next() == WatchEvent(EventType.CREATED, "/new")
    assert await children.next() == WatchEvent(EventType.CHILDREN, "/parent")
    assert await gone.next() == WatchEvent(EventType.DELETED, "/gone")
    # Those that had nothing to tell are in place again.
    await other.set("/same", b"x")
    await other.create("/same/child")
    assert await watchers["/same"].next() == WatchEvent(EventType.CHANGED, "/same")
    assert await quiet.next() == WatchEvent(EventType.CHILDREN, "/same")


async def test_a_change_under_way_when_the_connection_breaks_is_of_unknown_fate(
    cluster: ZooKeeperCluster, store: ZooKeeperStore, other: ZooKeeperStore
) -> None:
    await store.create("/q")
    changes = [asyncio.ensure_future(store.create(f"/q/{number}")) for number in range(50)]
    await asyncio.sleep(0)
    cluster.way(store).cut()
    await suspended(store)
    cluster.way(store).mend()
    answers = await asyncio.gather(*changes, return_exceptions=True)
    assert all(isinstance(answer, str | ConnectionLostError) for answer in answers), answers
    made = {f"/q/{name}" for name in await other.children("/q")}
    assert {answer for answer in answers if isinstance(answer, str)} <= made
    # The session goes on, and looking is how to find out.
    for number, answer in enumerate(answers):
        if isinstance(answer, ConnectionLostError) and f"/q/{number}" in made:
            with pytest.raises(NodeExistsError):
                await store.create(f"/q/{number}")
            break


async def test_a_session_that_ran_out_is_over_for_good(
    cluster: ZooKeeperCluster, store: ZooKeeperStore, other: ZooKeeperStore
) -> None:
    await store.create("/mine", ephemeral=True)
    gone = Watcher()
    await other.exists("/mine", gone)
    watcher, lost = Watcher(), asyncio.Event()
    await store.children("/", watcher)
    store.on_expired(lost.set)
    cluster.way(store).cut()
    await suspended(store)
    waiting = [
        asyncio.ensure_future(store.exists("/mine")),
        asyncio.ensure_future(store.create("/a")),
    ]
    await cluster.expire(store)
    await asyncio.wait_for(lost.wait(), PATIENCE_S)
    assert await gone.next() == WatchEvent(EventType.DELETED, "/mine")
    for answer in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(answer, SessionExpiredError)
    with pytest.raises(SessionExpiredError):
        await store.multi([Create("/a")])
    assert await other.exists("/a") is None
    assert watcher.fired == 0


async def test_a_silent_session_expires_by_itself(server: Server) -> None:
    way = await CuttableWay("127.0.0.1", server.port).start()
    watching = await ZooKeeperStore.open(server.address, session_timeout_ms=SESSION_MS)
    while True:
        store = await ZooKeeperStore.open(way.address, session_timeout_ms=1000)
        gone, lost = Watcher(), asyncio.Event()
        store.on_expired(lost.set)
        with suppress(SessionExpiredError, ConnectionLostError):
            await store.create("/silent", ephemeral=True)
            if await watching.exists("/silent", gone) is not None:
                break
        await store.close()  # held up for longer than its session, before anything was cut
    way.cut()
    assert (await gone.next()).type is EventType.DELETED
    way.mend()
    await asyncio.wait_for(lost.wait(), PATIENCE_S)
    await store.close()
    await watching.close()
    await way.close()


async def test_a_session_outlives_the_server_process(kind: type[Server], tmp_path: Path) -> None:
    server = kind(tmp_path / "own")
    server.start()
    store = await ZooKeeperStore.open(server.address, session_timeout_ms=SESSION_MS)
    try:
        await store.create("/kept", b"x")
        await store.create("/mine", ephemeral=True)
        session_id, watcher = store.session_id, Watcher()
        await store.get("/kept", watcher)
        server.kill()
        await suspended(store)
        change = asyncio.ensure_future(store.set("/kept", b"y"))
        await asyncio.to_thread(server.start)
        assert (await change).version == 1
        assert await watcher.next() == WatchEvent(EventType.CHANGED, "/kept")
        stat = await store.exists("/mine")
        assert stat is not None
        assert stat.ephemeral_owner == store.session_id == session_id
    finally:
        await store.close()
        server.kill()


async def test_many_requests_at_once(store: ZooKeeperStore) -> None:
    await store.create("/many")
    many = 5 * IN_FLIGHT
    answers = await store.multi_many(
        [[Create(f"/many/{number}", b"%d" % number)] for number in range(many)]
    )
    assert answers == [[f"/many/{number}"] for number in range(many)]
    found = await store.get_many([f"/many/{number}" for number in range(many)])
    assert [node[0] if node else None for node in found] == [
        b"%d" % number for number in range(many)
    ]


async def test_many_nodes_are_read_one_by_one_where_that_is_all_there_is(
    store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MultiRead, "type", 2222)  # as on a ZooKeeper before 3.6
    await store.create("/a", b"x")
    missing, found, root = await store.get_many(["/missing", "/a", "/"])
    assert missing is None
    assert found == await store.get("/a")
    assert root == await store.get("/")


async def test_many_nodes_are_read_although_the_connection_breaks(
    cluster: ZooKeeperCluster, store: ZooKeeperStore
) -> None:
    paths = [f"/{number}" for number in range(1000)]
    await store.multi_many([[Create(path, path.encode())] for path in paths])
    reading = asyncio.ensure_future(store.get_many(paths))
    await asyncio.sleep(0)
    cluster.way(store).cut()
    await suspended(store)
    cluster.way(store).mend()
    assert [node and node[0].decode() for node in await reading] == paths


async def test_nobody_there() -> None:
    with pytest.raises(StoreUnavailableError, match="no ZooKeeper answers at"):
        await ZooKeeperStore.open(f"127.0.0.1:{free_port()}", connection_timeout_ms=200)


async def test_hosts_that_do_not_answer_or_are_not_known_are_passed_over(server: Server) -> None:
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        with ExitStack() as full:
            for _ in range(3):  # nobody else gets through to it
                way = full.enter_context(socket.socket())
                way.setblocking(False)
                way.connect_ex(hole.getsockname())
            dead = f"127.0.0.1:{hole.getsockname()[1]},127.0.0.1:{free_port()},zk.invalid:2181"
            for _ in range(3):  # hosts are tried in any order
                store = await ZooKeeperStore.open(
                    f"{dead},{server.address}", session_timeout_ms=6000, connection_timeout_ms=60000
                )
                assert await store.exists("/") is not None
                await store.close()


async def test_names_that_lead_nowhere_are_told() -> None:
    with pytest.raises(EnsembleError, match=r"within 200 ms: zk\.invalid is not known \("):
        await ZooKeeperStore.open("zk.invalid:2181", connection_timeout_ms=200)


def test_a_host_that_takes_no_connection_leaves_time_for_the_others() -> None:
    async def timeout_for(connect: str) -> float:
        store = ZooKeeperStore(connect, 9000, None, own_acl=False)
        return float(store._client.handler._connect_within_s)

    assert asyncio.run(timeout_for("a:1")) == 3.0
    assert asyncio.run(timeout_for("a:1,b:1,c:1/kafka")) == 1.0


async def test_nodes_may_be_for_nobody_else(tmp_path: Path) -> None:
    """Digest credentials and access control lists, which only an ensemble has."""
    with ZooKeeper(tmp_path / "own") as zookeeper:
        settings = EnsembleSettings(
            f"{zookeeper.address},127.0.0.1:{free_port()}/deep/kafka",
            SESSION_MS,
            credentials="kafka:secret",
            own_acl=True,
        )
        ensemble = await Ensemble.open(settings)
        store = ensemble.session()
        await store.create("/a", b"x")
        again = await Ensemble.open(settings)
        assert (await again.session().get("/a"))[0] == b"x"
        stranger = await ZooKeeperStore.open(zookeeper.address, session_timeout_ms=SESSION_MS)
        assert await stranger.children("/deep") == ["kafka"]
        with pytest.raises(EnsembleError, match="NoAuth"):
            await stranger.set("/deep/kafka/a", b"y")
        with pytest.raises(EnsembleError, match="NoAuth"):
            await stranger.get("/deep/kafka/a")
        for one in (stranger, ensemble, again):
            await one.close()


async def test_a_node_that_may_not_be_watched_any_more_makes_nobody_deaf(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "own") as zookeeper:
        way = await CuttableWay("127.0.0.1", zookeeper.port).start()
        store = await ZooKeeperStore.open(
            way.address, session_timeout_ms=SESSION_MS, credentials="kafka:secret", own_acl=True
        )
        for path in ("/lost", "/kept"):
            await store.create(path)
        seen: asyncio.Queue[WatchEvent] = asyncio.Queue()
        for path in ("/lost", "/kept"):
            await store.children(path, seen.put_nowait)
        way.cut()
        await asyncio.to_thread(_give_to_somebody_else, zookeeper.address, "/lost")
        way.mend()
        async with asyncio.timeout(PATIENCE_S):
            # Whoever watches is told to look, and hears why that is not possible.
            assert await seen.get() == WatchEvent(EventType.CHILDREN, "/lost")
            with pytest.raises(EnsembleError, match="NoAuth"):
                await store.children("/lost", seen.put_nowait)
            # The others go on, with the credentials of before.
            await store.create("/kept/child")
            assert await seen.get() == WatchEvent(EventType.CHILDREN, "/kept")
        await store.close()
        await way.close()


def _give_to_somebody_else(address: str, path: str) -> None:
    client = KazooClient(address, auth_data=[("digest", "kafka:secret")])
    client.start(PATIENCE_S)
    client.set_acls(path, [make_digest_acl("other", "secret", all=True)])
    client.stop()
    client.close()


async def test_there_is_another_session_when_one_is_over(
    cluster: ZooKeeperCluster, server: Server
) -> None:
    ensemble = await Ensemble.open(EnsembleSettings(f"{server.address}/again", SESSION_MS))
    first = ensemble.session()
    await first.create("/e", b"1", ephemeral=True)
    await first.close()
    second = ensemble.session()
    assert await second.exists("/e") is None
    await second.create("/e", b"2", ephemeral=True)
    assert second.session_id not in (0, first.session_id)
    await ensemble.close()
    await ensemble.close()

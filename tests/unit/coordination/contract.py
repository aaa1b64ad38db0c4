"""The coordination contract as tests. Every implementation of the store inherits this class.

A subclass supplies the fixture ``cluster``: it opens sessions on one store and can make one of them
expire, as a missed heartbeat would.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from moldau.coordination.errors import (
    BadPathError,
    BadVersionError,
    EphemeralParentError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from moldau.coordination.store import (
    Check,
    CoordinationStore,
    Create,
    Delete,
    EventType,
    SetData,
    Stat,
    WatchEvent,
)


class Cluster(Protocol):
    async def session(self) -> CoordinationStore: ...

    async def expire(self, session: CoordinationStore) -> None: ...


class Watcher:
    """Collects events; ``next`` waits for one."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self.events.put_nowait(event)

    async def next(self) -> WatchEvent:
        return await asyncio.wait_for(self.events.get(), 60)

    @property
    def fired(self) -> int:
        return self.events.qsize()


class CoordinationContract:
    @pytest.fixture
    async def store(self, cluster: Cluster) -> CoordinationStore:
        return await cluster.session()

    @pytest.fixture
    async def other(self, cluster: Cluster) -> CoordinationStore:
        return await cluster.session()

    # Nodes

    async def test_a_node_holds_what_was_put_into_it(self, store: CoordinationStore) -> None:
        assert await store.create("/a", b"one") == "/a"
        data, stat = await store.get("/a")
        assert data == b"one"
        assert (stat.version, stat.cversion, stat.num_children) == (0, 0, 0)
        assert stat.data_length == 3
        assert stat.ephemeral_owner == 0
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
        assert stat.ctime == stat.mtime > 0

    async def test_a_node_may_be_empty(self, store: CoordinationStore) -> None:
        await store.create("/a")
        assert (await store.get("/a"))[0] == b""

    async def test_other_sessions_see_an_acknowledged_change(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/a", b"one")
        assert (await other.get("/a"))[0] == b"one"
        await other.set("/a", b"two")
        assert (await store.get("/a"))[0] == b"two"

    async def test_setting_raises_the_version(self, store: CoordinationStore) -> None:
        await store.create("/a", b"one")
        first = (await store.get("/a"))[1]
        stat = await store.set("/a", b"two")
        assert stat.version == 1
        assert stat.czxid == first.czxid < stat.mzxid
        assert (await store.get("/a"))[1] == stat

    async def test_setting_with_the_right_version_succeeds(self, store: CoordinationStore) -> None:
        await store.create("/a")
        await store.set("/a", b"1", 0)
        await store.set("/a", b"2", 1)
        assert (await store.get("/a"))[0] == b"2"

    async def test_setting_with_a_stale_version_changes_nothing(
        self, store: CoordinationStore
    ) -> None:
        await store.create("/a", b"one")
        await store.set("/a", b"two")
        with pytest.raises(BadVersionError) as caught:
            await store.set("/a", b"three", 0)
        assert caught.value.path == "/a"
        assert (await store.get("/a"))[0] == b"two"

    async def test_creating_twice_is_refused(self, store: CoordinationStore) -> None:
        await store.create("/a", b"one")
        with pytest.raises(NodeExistsError):
            await store.create("/a", b"two")
        assert (await store.get("/a"))[0] == b"one"

    async def test_a_parent_must_exist(self, store: CoordinationStore) -> None:
        with pytest.raises(NoNodeError):
            await store.create("/a/b")
        assert await store.exists("/a") is None

    async def test_what_is_not_there_cannot_be_read_changed_or_deleted(
        self, store: CoordinationStore
    ) -> None:
        for attempt in (
            store.get("/a"),
            store.set("/a", b""),
            store.delete("/a"),
            store.children("/a"),
        ):
            with pytest.raises(NoNodeError):
                await attempt
        assert await store.exists("/a") is None

    async def test_deleting_removes_the_node(self, store: CoordinationStore) -> None:
        await store.create("/a")
        await store.delete("/a")
        assert await store.exists("/a") is None
        await store.create("/a")
        assert (await store.get("/a"))[1].version == 0

    async def test_deleting_with_a_stale_version_is_refused(self, store: CoordinationStore) -> None:
        await store.create("/a")
        await store.set("/a", b"x")
        with pytest.raises(BadVersionError):
            await store.delete("/a", 0)
        await store.delete("/a", 1)
        assert await store.exists("/a") is None

    async def test_a_node_with_children_cannot_be_deleted(self, store: CoordinationStore) -> None:
        await store.create("/a")
        await store.create("/a/b")
        with pytest.raises(NotEmptyError):
            await store.delete("/a")
        await store.delete("/a/b")
        await store.delete("/a")

    async def test_children_are_names_in_order(self, store: CoordinationStore) -> None:
        await store.create("/a")
        for name in ("c", "a", "b"):
            await store.create(f"/a/{name}")
        await store.create("/a/b/deeper")
        assert await store.children("/a") == ["a", "b", "c"]
        assert await store.children("/a/c") == []
        stat = await store.exists("/a")
        assert stat is not None
        assert (stat.num_children, stat.cversion, stat.version) == (3, 3, 0)

    async def test_the_parent_remembers_the_last_change_of_its_children(
        self, store: CoordinationStore
    ) -> None:
        await store.create("/a")
        await store.create("/a/b")
        born = (await store.get("/a"))[1]
        await store.delete("/a/b")
        after = (await store.get("/a"))[1]
        assert after.pzxid > born.pzxid > born.mzxid
        assert after.cversion == 2
        assert after.mzxid == born.mzxid

    async def test_reading_many_answers_none_for_what_is_missing(
        self, store: CoordinationStore
    ) -> None:
        await store.create("/a", b"1")
        await store.create("/b", b"2")
        first, missing, second = await store.get_many(["/a", "/nope", "/b"])
        assert first == await store.get("/a")
        assert missing is None
        assert second == await store.get("/b")
        assert await store.get_many([]) == []

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/.", "/a/../b", "/a\x00b"])
    async def test_malformed_paths_are_refused(self, store: CoordinationStore, path: str) -> None:
        for attempt in (store.create(path), store.get(path), store.exists(path)):
            with pytest.raises(BadPathError):
                await attempt

    async def test_ensure_path_makes_all_that_is_missing(self, store: CoordinationStore) -> None:
        await store.create("/a", b"kept")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/a/b/c")
        assert await store.children("/a/b") == ["c"]
        assert (await store.get("/a"))[0] == b"kept"

    async def test_sessions_may_ensure_a_path_at_once(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await asyncio.gather(store.ensure_path("/a/b/c"), other.ensure_path("/a/b/c"))
        assert await store.children("/a/b") == ["c"]

    # Sequence nodes

    async def test_sequence_nodes_are_numbered_in_order(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/q")
        made = [
            await store.create("/q/n-", b"1", sequence=True),
            await other.create("/q/n-", b"2", sequence=True),
        ]
        await store.delete(made[0])
        made.append(await store.create("/q/n-", b"3", sequence=True))
        assert made == sorted(set(made))
        assert all(len(path) == len("/q/n-") + 10 for path in made)
        assert (await store.get(made[2]))[0] == b"3"

    # Multi

    async def test_a_multi_happens_whole(self, store: CoordinationStore) -> None:
        await store.create("/old", b"x")
        await store.create("/kept", b"x")
        results = await store.multi(
            [
                Check("/kept", 0),
                Create("/a", b"1"),
                Create("/a/b", b"2"),
                SetData("/kept", b"y", 0),
                Delete("/old", 0),
            ]
        )
        assert results[:3] == [None, "/a", "/a/b"]
        stat = results[3]
        assert isinstance(stat, Stat)
        assert stat.version == 1
        assert await store.exists("/old") is None
        parent, child = (await store.get("/a"))[1], (await store.get("/a/b"))[1]
        assert parent.czxid == child.czxid == stat.mzxid

    @pytest.mark.parametrize(
        ("failing", "error"),
        [
            (Create("/kept"), NodeExistsError),
            (Create("/no/parent"), NoNodeError),
            (SetData("/kept", b"", 7), BadVersionError),
            (SetData("/nope", b""), NoNodeError),
            (Delete("/kept", 7), BadVersionError),
            (Delete("/full"), NotEmptyError),
            (Check("/kept", 7), BadVersionError),
            (Check("/nope", 0), NoNodeError),
        ],
        ids=repr,
    )
    async def test_a_multi_with_one_failure_changes_nothing(
        self,
        store: CoordinationStore,
        failing: Create | SetData | Delete | Check,
        error: type[Exception],
    ) -> None:
        await store.create("/kept", b"x")
        await store.create("/old", b"x")
        await store.create("/full")
        await store.create("/full/child")
        before = await store.get_many(["/", "/kept", "/old", "/full"])
        with pytest.raises(error) as caught:
            await store.multi(
                [
                    Create("/a"),
                    Create("/a/b"),
                    SetData("/kept", b"y"),
                    Delete("/old"),
                    failing,
                    Create("/never"),
                ]
            )
        assert getattr(caught.value, "index", None) == 4
        assert await store.get_many(["/", "/kept", "/old", "/full"]) == before
        assert await store.get_many(["/a", "/a/b", "/never"]) == [None, None, None]

    async def test_an_empty_multi_succeeds(self, store: CoordinationStore) -> None:
        assert await store.multi([]) == []

    async def test_several_multis_answer_each_for_itself(self, store: CoordinationStore) -> None:
        await store.create("/a")
        good, bad, late = await store.multi_many(
            [
                [Create("/b"), Create("/b/c")],
                [Create("/d"), Create("/a")],
                [SetData("/b", b"seen", 0)],
            ]
        )
        assert good == ["/b", "/b/c"]
        assert isinstance(bad, NodeExistsError)
        assert isinstance(late, list)
        assert await store.exists("/d") is None
        assert (await store.get("/b"))[0] == b"seen"

    async def test_concurrent_changes_conditional_on_one_version_have_one_winner(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/epoch", b"0")
        answers = await asyncio.gather(
            *(session.set("/epoch", b"1", 0) for session in (store, other) * 5),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Stat) for answer in answers) == 1
        assert sum(isinstance(answer, BadVersionError) for answer in answers) == 9
        assert (await store.get("/epoch"))[1].version == 1

    # Ephemeral nodes and sessions

    async def test_sessions_have_their_own_ids(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        for session in (store, other):
            await session.exists("/")  # which is answered in a session
        assert 0 != store.session_id != other.session_id != 0

    async def test_an_ephemeral_node_knows_its_owner(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/e", b"here", ephemeral=True)
        data, stat = await other.get("/e")
        assert data == b"here"
        assert stat.ephemeral_owner == store.session_id

    async def test_an_ephemeral_node_has_no_children(self, store: CoordinationStore) -> None:
        await store.create("/e", ephemeral=True)
        with pytest.raises(EphemeralParentError):
            await store.create("/e/child")

    async def test_closing_a_session_deletes_its_ephemeral_nodes_only(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/mine", ephemeral=True)
        await store.create("/stays")
        await other.create("/theirs", ephemeral=True)
        await store.close()
        assert await other.exists("/mine") is None
        assert await other.exists("/stays") is not None
        assert await other.exists("/theirs") is not None

    async def test_expiry_deletes_ephemeral_nodes_and_tells_the_owner(
        self, cluster: Cluster, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        lost = asyncio.Event()
        store.on_expired(lost.set)
        await store.create("/mine", ephemeral=True)
        await cluster.expire(store)
        await asyncio.wait_for(lost.wait(), 60)
        assert await other.exists("/mine") is None

    async def test_closing_does_not_count_as_expiry(self, store: CoordinationStore) -> None:
        lost = asyncio.Event()
        store.on_expired(lost.set)
        await store.close()
        await store.close()
        assert not lost.is_set()

    async def test_an_ended_session_is_refused(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/a")
        await store.close()
        for attempt in (
            store.get("/a"),
            store.get_many(["/a"]),
            store.exists("/a"),
            store.children("/a"),
            store.set("/a", b""),
            store.create("/b"),
            store.delete("/a"),
            store.multi([Create("/b")]),
            store.multi_many([[Create("/b")]]),
        ):
            with pytest.raises(SessionExpiredError):
                await attempt
        assert await other.exists("/b") is None

    async def test_a_name_is_free_again_once_its_owner_is_gone(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        await store.create("/leader", b"1", ephemeral=True)
        with pytest.raises(NodeExistsError):
            await other.create("/leader", b"2", ephemeral=True)
        first = (await other.get("/leader"))[1].czxid
        await store.close()
        await other.create("/leader", b"2", ephemeral=True)
        assert (await other.get("/leader"))[1].czxid > first

    # Watches

    async def test_a_data_watch_fires_once_on_a_change(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.get("/a", watcher)
        await other.set("/a", b"1")
        await other.set("/a", b"2")
        assert await watcher.next() == WatchEvent(EventType.CHANGED, "/a")
        assert (await store.get("/a"))[0] == b"2"
        assert watcher.fired == 0

    async def test_a_data_watch_fires_on_deletion(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.exists("/a", watcher)
        await other.delete("/a")
        assert await watcher.next() == WatchEvent(EventType.DELETED, "/a")

    async def test_a_watch_on_a_missing_node_fires_on_creation(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        assert await store.exists("/a", watcher) is None
        await other.create("/a")
        assert await watcher.next() == WatchEvent(EventType.CREATED, "/a")

    async def test_a_failed_read_leaves_no_watch(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        with pytest.raises(NoNodeError):
            await store.get("/a", watcher)
        with pytest.raises(NoNodeError):
            await store.children("/a", watcher)
        await other.create("/a")
        await other.create("/a/b")
        await store.get("/a")
        assert watcher.fired == 0

    async def test_a_child_watch_fires_when_a_child_comes_or_goes(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.children("/a", watcher)
        await other.create("/a/b")
        assert await watcher.next() == WatchEvent(EventType.CHILDREN, "/a")
        await store.children("/a", watcher)
        await other.delete("/a/b")
        assert await watcher.next() == WatchEvent(EventType.CHILDREN, "/a")

    async def test_a_child_watch_ignores_data_and_grandchildren(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.ensure_path("/a/b")
        await store.children("/a", watcher)
        await other.set("/a", b"x")
        await other.set("/a/b", b"x")
        await other.create("/a/b/c")
        await store.get("/a")
        assert watcher.fired == 0

    async def test_a_data_watch_ignores_children(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.get("/a", watcher)
        await other.create("/a/b")
        await store.get("/a")
        assert watcher.fired == 0

    async def test_a_watch_on_data_and_children_hears_of_a_deletion_once(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.get("/a", watcher)
        await store.children("/a", watcher)
        await other.delete("/a")
        assert await watcher.next() == WatchEvent(EventType.DELETED, "/a")
        await store.exists("/a")
        assert watcher.fired == 0

    async def test_a_refused_change_fires_nothing(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.get("/a", watcher)
        with pytest.raises(BadVersionError):
            await other.multi([SetData("/a", b"x"), Check("/a", 5)])
        await store.get("/a")
        assert watcher.fired == 0

    async def test_a_session_that_ends_sets_off_the_watches_on_its_nodes(
        self, cluster: Cluster, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        gone, fewer = Watcher(), Watcher()
        await store.ensure_path("/ids")
        await store.create("/ids/1", ephemeral=True)
        await other.exists("/ids/1", gone)
        await other.children("/ids", fewer)
        await cluster.expire(store)
        assert await gone.next() == WatchEvent(EventType.DELETED, "/ids/1")
        assert await fewer.next() == WatchEvent(EventType.CHILDREN, "/ids")

    async def test_watches_of_an_ended_session_are_silent(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a")
        await store.get("/a", watcher)
        await store.close()
        await other.set("/a", b"x")
        await other.get("/a")
        assert watcher.fired == 0

    async def test_all_watchers_of_a_node_are_called(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        first, second = Watcher(), Watcher()
        await store.create("/a")
        await store.get("/a", first)
        await other.get("/a", second)
        await store.set("/a", b"x")
        assert (await first.next()).type is EventType.CHANGED
        assert (await second.next()).type is EventType.CHANGED

    async def test_an_event_arrives_before_the_session_sees_later_data(
        self, store: CoordinationStore, other: CoordinationStore
    ) -> None:
        watcher = Watcher()
        await store.create("/a", b"0")
        await store.get("/a", watcher)
        change = asyncio.ensure_future(other.set("/a", b"1"))
        while (await store.get("/a"))[0] == b"0":  # noqa: ASYNC110 - what it reads is what is tested
            await asyncio.sleep(0)
        assert watcher.fired == 1
        await change

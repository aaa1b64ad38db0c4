"""Sessions that are kept: whose time is up, and what survives in the journal and the snapshot."""

from __future__ import annotations

import errno

import pytest
from tests.support.memory_storage import MemoryStorage

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.errors import StoreUnavailableError
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordination.sessions import Session, SessionTable
from moldau.coordination.store import Create, Delete
from moldau.coordination.tree import Tree, Txn
from moldau.machine import RunInThread
from moldau.testing.clock import ManualClock

FIRST = Session(1, b"one", 6000)
SECOND = Session(2, b"two", 3000)


def test_a_session_is_over_when_it_was_silent_for_its_timeout() -> None:
    table = SessionTable()
    table.add(FIRST, 100.0)
    table.add(SECOND, 102.0)
    assert table.next_end() == 105.0
    assert table.silent(104.9) == []
    assert table.silent(105.0) == [2]
    table.hear(2, 104.0)
    assert table.next_end() == 106.0
    assert table.silent(200.0) == [1, 2]
    table.remove(1)
    table.hear(1, 200.0)
    assert table.silent(300.0) == [2]


def test_silence_counts_for_nobody_while_the_store_was_away() -> None:
    table = SessionTable()
    table.add(FIRST, 100.0)
    table.was_away(50.0)
    assert table.next_end() == 156.0


def replayed(*txns: Txn | None) -> Tree:
    tree = Tree()
    for txn in txns:
        assert txn is not None
        tree.replay(txn)
    return tree


def test_closing_a_session_is_one_transaction_that_can_be_replayed_and_taken_back() -> None:
    tree = Tree()
    opened = tree.open_session(FIRST, 1)
    made = tree.commit([Create("/a", b"", True), Create("/b")], FIRST.id, 2)
    closed = tree.close_session(FIRST.id, 3)
    assert (sorted(tree.nodes), tree.sessions) == (["/", "/b"], {})
    again = replayed(opened.txn, made.txn, closed.txn)
    assert (again.nodes, again.sessions) == (tree.nodes, {})
    tree.rollback([closed])
    before = replayed(opened.txn, made.txn)
    assert (tree.nodes, tree.sessions, tree.zxid) == (before.nodes, before.sessions, before.zxid)
    assert tree.sessions == {1: FIRST}
    tree.rollback([made])
    tree.rollback([opened])
    assert (sorted(tree.nodes), tree.sessions, tree.zxid) == (["/"], {}, 0)


async def _here(work: object, *args: object) -> object:
    assert callable(work)
    return work(*args)


class Life:
    """One life of a store that keeps sessions."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock) -> None:
        self.store = store
        self.kept = KeptSessions(store, clock)


async def live(disk: MemoryStorage, clock: ManualClock) -> Life:
    run: RunInThread = _here  # type: ignore[assignment]
    return Life(
        await EmbeddedStore.open(disk, run, clock.now_ms, keeps_sessions=True),
        clock,
    )


@pytest.mark.parametrize("cleanly", [False, True])
async def test_sessions_and_their_nodes_are_there_after_a_restart(cleanly: bool) -> None:
    disk, clock = MemoryStorage(), ManualClock()
    life = await live(disk, clock)
    session = await life.kept.open(6000, b"secret")
    await session.create("/e", b"here", ephemeral=True)
    if cleanly:
        life.kept.close()
        await life.store.close()
    files = dict(disk.files)
    clock.advance(3600)
    life = await live(MemoryStorage(files), clock)
    assert life.kept.resume(session.session_id, b"guessed") is None
    assert life.kept.resume(session.session_id + 1, b"secret") is None
    again = life.kept.resume(session.session_id, b"secret")
    assert again is not None
    stat = await again.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == session.session_id
    await again.close()
    assert await life.store.session().exists("/e") is None


async def test_a_process_that_has_the_store_to_itself_ends_all_sessions() -> None:
    disk, clock = MemoryStorage(), ManualClock()
    life = await live(disk, clock)
    session = await life.kept.open(6000, b"secret")
    await session.create("/e", ephemeral=True)
    run: RunInThread = _here  # type: ignore[assignment]
    store = await EmbeddedStore.open(MemoryStorage(disk.files), run, clock.now_ms)
    assert await store.session().exists("/e") is None
    assert store.kept_sessions() == []


async def test_what_a_process_that_had_the_store_to_itself_left_is_gone() -> None:
    disk, clock = MemoryStorage(), ManualClock()
    life = await live(disk, clock)
    await life.store.session().create("/e", ephemeral=True)
    kept = await life.kept.open(6000, b"secret")
    await kept.create("/kept", ephemeral=True)
    life = await live(MemoryStorage(disk.files), clock)
    assert await life.store.session().children("/") == ["kept"]


async def test_an_end_that_could_not_be_written_is_tried_again() -> None:
    disk, clock = MemoryStorage(), ManualClock()
    life = await live(disk, clock)
    session = await life.kept.open(6000, b"secret")
    await session.create("/e", ephemeral=True)
    disk.fail_append = errno.ENOSPC
    with pytest.raises(StoreUnavailableError):
        await life.kept.expire(session.session_id)
    assert session.session_id in life.kept
    await life.kept.expire(session.session_id)
    assert session.session_id not in life.kept
    assert await life.store.session().exists("/e") is None


async def test_ids_are_never_used_twice_although_the_clock_goes_back() -> None:
    disk, clock = MemoryStorage(), ManualClock()
    life = await live(disk, clock)
    first = await life.kept.open(6000, b"secret")
    store = await EmbeddedStore.open(
        MemoryStorage(disk.files),
        _here,  # type: ignore[arg-type]
        lambda: 1,
        keeps_sessions=True,
    )
    assert store.new_session_id() > first.session_id


def test_orphans_are_ephemeral_nodes_without_a_session() -> None:
    tree = Tree()
    tree.open_session(FIRST, 1)
    tree.commit([Create("/a", b"", True)], FIRST.id, 1)
    tree.commit([Create("/b", b"", True)], 7, 1)
    assert tree.orphans() == ["/b"]
    tree.commit([Delete("/b")], 0, 1)
    assert tree.orphans() == []

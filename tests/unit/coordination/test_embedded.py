"""The embedded store: the contract, and what is its own (durability, restarts, failing disks)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.memory_storage import MemoryStorage, open_store
from tests.support.small_disk import small_disk
from tests.unit.coordination.contract import CoordinationContract, Watcher

from moldau.coordination import journal, paths
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import (
    NodeExistsError,
    SessionExpiredError,
    StoreCorruptError,
    StoreLockedError,
    StoreUnavailableError,
)
from moldau.coordination.storage import DiskStorage
from moldau.coordination.store import CoordinationStore, Create, SetData
from moldau.machine.real.disk import OsDisk


class EmbeddedCluster:
    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store

    async def session(self) -> CoordinationStore:
        return self.store.session()

    async def expire(self, session: CoordinationStore) -> None:
        assert isinstance(session, EmbeddedSession)
        await self.store.expire(session)


class TestContract(CoordinationContract):
    @pytest.fixture
    async def cluster(self, tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
        store = await open_store(tmp_path / "coordination")
        yield EmbeddedCluster(store)
        await store.close()


async def test_everything_but_ephemeral_nodes_survives_a_clean_restart(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    session = store.session()
    await session.create("/a", b"one")
    await session.set("/a", b"two")
    await session.create("/e", ephemeral=True)
    before = await session.get("/a")
    await store.close()
    store = await open_store(tmp_path)
    session = store.session()
    assert await session.get("/a") == before
    assert await session.exists("/e") is None
    await store.close()


async def test_everything_acknowledged_survives_a_crash() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await session.create("/a", b"one")
    await session.create("/e", ephemeral=True)
    await session.set("/a", b"two")
    crashed = MemoryStorage(disk.files)
    after = (await open_store(crashed)).session()
    assert await after.get("/a") == await session.get("/a")
    assert await after.exists("/e") is None


async def test_transactions_are_never_numbered_twice_across_crashes() -> None:
    files: dict[str, bytes] = {}
    seen: list[int] = []
    for _ in range(4):
        disk = MemoryStorage(files)
        session = (await open_store(disk)).session()
        await session.create("/broker", ephemeral=True)
        seen.append((await session.get("/broker"))[1].czxid)
        files = disk.files
    assert seen == sorted(set(seen))


async def test_the_restart_that_ends_sessions_is_itself_remembered() -> None:
    disk = MemoryStorage()
    session = (await open_store(disk)).session()
    await session.create("/e", b"1", ephemeral=True)
    second = MemoryStorage(disk.files)
    session = (await open_store(second)).session()
    await session.create("/e", b"2")
    third = (await open_store(MemoryStorage(second.files))).session()
    data, stat = await third.get("/e")
    assert (data, stat.ephemeral_owner) == (b"2", 0)


async def test_a_clean_stop_leaves_a_snapshot_and_an_empty_journal() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    empty = len(disk.files[journal.JOURNAL])
    session = store.session()
    await session.create("/a")
    assert len(disk.files[journal.JOURNAL]) > empty
    await store.close()
    assert len(disk.files[journal.JOURNAL]) == empty
    assert disk.closed
    assert disk.replaced[-2:] == [journal.SNAPSHOT, journal.JOURNAL]


async def test_a_long_journal_is_replaced_by_a_snapshot() -> None:
    disk = MemoryStorage()
    store = await open_store(disk, snapshot_after=2000)
    session = store.session()
    await session.create("/a")
    for number in range(500):
        await session.set("/a", b"%d" % number)
        assert len(disk.files[journal.JOURNAL]) < 2200
    assert journal.SNAPSHOT in disk.replaced
    crashed = (await open_store(MemoryStorage(disk.files))).session()
    assert await crashed.get("/a") == await session.get("/a")


async def test_a_crash_between_snapshot_and_new_journal_loses_and_repeats_nothing() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await session.create("/q")
    await session.create("/q/n", sequence=True)
    old = disk.files[journal.JOURNAL]
    await store.close()
    disk.files[journal.JOURNAL] = old
    session = (await open_store(MemoryStorage(disk.files))).session()
    assert await session.children("/q") == ["n0000000000"]
    assert await session.create("/q/n", sequence=True) == "/q/n0000000001"


async def test_a_lost_snapshot_is_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    await store.session().create("/a")
    await store.close()
    store = await open_store(disk)
    await store.session().create("/b")
    await store.close()
    del disk.files[journal.SNAPSHOT]
    session = (await open_store(MemoryStorage(disk.files))).session()
    assert await session.children("/") == ["a", "b"]
    assert "the snapshot is missing" in caplog.text


async def test_a_store_without_its_last_snapshots_is_reported() -> None:
    disk = MemoryStorage()
    for name in ("/a", "/b", "/c"):
        store = await open_store(disk)
        await store.session().create(name)
        await store.close()
    del disk.files[journal.SNAPSHOT], disk.files[journal.PREVIOUS_SNAPSHOT]
    with pytest.raises(StoreCorruptError, match="snapshot is missing"):
        await open_store(MemoryStorage(disk.files))


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_process_without_descriptors_is_no_failed_disk(error: int) -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await session.create("/a", b"old")
    disk.fail_append, disk.torn = error, 7
    with pytest.raises(StoreUnavailableError):
        await session.set("/a", b"new")
    assert (await session.get("/a"))[0] == b"old"
    # Nor is what the next change, which has to tidy up first, runs into.
    disk.fail_blank = error
    with pytest.raises(StoreUnavailableError):
        await session.set("/a", b"newer")
    disk.fail_blank = 0
    await session.set("/a", b"newest")
    crashed = (await open_store(MemoryStorage(disk.files))).session()
    assert (await crashed.get("/a"))[0] == b"newest"


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOSPC])
async def test_a_snapshot_that_cannot_be_written_for_now_is_tried_again(error: int) -> None:
    disk = MemoryStorage()
    store = await open_store(disk, snapshot_after=1000)
    session = store.session()
    await session.create("/a")
    disk.fail_replace = error
    for number in range(2000):
        await session.set("/a", b"%d" % number)
    assert journal.SNAPSHOT in disk.replaced
    crashed = (await open_store(MemoryStorage(disk.files))).session()
    assert (await crashed.get("/a"))[0] == b"1999"


async def test_the_journal_has_room_although_the_disk_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        data = tmp_path / "disk" / "data"
        storage = DiskStorage(disk, str(data))
        store = await EmbeddedStore.open(storage, asyncio.to_thread, lambda: 1)
        session = store.session()
        await session.create("/a")
        filler = disk.open(str(data / "filler"), create=True)
        with suppress(OSError):
            while True:
                filler.append(bytes(512))
        for number in range(500):
            await session.set("/a", b"%d" % number)
        storage.close()
        again = DiskStorage(disk, str(data))
        session = (await EmbeddedStore.open(again, asyncio.to_thread, lambda: 1)).session()
        assert (await session.get("/a"))[0] == b"499"
        await session.set("/a", b"on a full disk, after a crash")
        again.close()


async def test_a_disk_full_at_the_last_step_of_a_snapshot_costs_no_change(tmp_path: Path) -> None:
    """The new journal is in its place although its name may not be durable yet."""

    class Full(OsDisk):
        syncs_to_come = 1 << 30

        def sync_dir(self, path: str) -> None:
            self.syncs_to_come -= 1
            if self.syncs_to_come == 0:
                raise OSError(errno.ENOSPC, "no room")
            super().sync_dir(path)

    for step in (1, 2):
        disk, data = Full(), str(tmp_path / str(step))
        storage = DiskStorage(disk, data)
        store = await EmbeddedStore.open(storage, asyncio.to_thread, lambda: 1, 2000)
        session = store.session()
        await session.create("/a")
        disk.syncs_to_come = step
        for number in range(200):
            with suppress(StoreUnavailableError):
                await session.set("/a", b"%d" % number)
        assert disk.syncs_to_come <= 0
        storage.close()
        again = await EmbeddedStore.open(DiskStorage(disk, data), asyncio.to_thread, lambda: 1)
        assert (await again.session().get("/a"))[0] == b"199"
        await again.close()


async def test_what_may_be_missing_is_marked_until_somebody_has_looked() -> None:
    disk = MemoryStorage()
    session = (await open_store(disk)).session()
    await session.create("/a")
    await session.create("/b")
    torn = MemoryStorage({journal.JOURNAL: disk.files[journal.JOURNAL][:-1]})
    session = (await open_store(torn)).session()
    assert await session.exists(paths.SUSPECTED_LOSS) is not None
    await session.create("/c")
    session = (await open_store(MemoryStorage(torn.files))).session()
    assert await session.exists(paths.SUSPECTED_LOSS) is not None


async def test_requests_that_arrive_together_share_one_sync() -> None:
    disk = MemoryStorage()
    session = (await open_store(disk)).session()
    await asyncio.gather(*(session.create(f"/n{number}") for number in range(100)))
    assert disk.appends == 1
    await session.multi_many([[Create(f"/m{number}")] for number in range(100)])
    assert disk.appends == 2


class Gate:
    """Runs work only when told, so that a test can look while a sync is under way."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = asyncio.Event()

    async def __call__(self, work: object) -> object:
        self.waiting.set()
        await self.open.wait()
        assert callable(work)
        return work()


async def test_a_change_is_not_seen_before_it_is_durable() -> None:
    gate = Gate()
    store = await open_store(MemoryStorage(), gate)  # type: ignore[arg-type]
    session, other = store.session(), store.session()
    await session.create("/a", b"old")
    watcher = Watcher()
    await other.get("/a", watcher)
    gate.open.clear()
    gate.waiting.clear()
    change = asyncio.ensure_future(session.set("/a", b"new"))
    await gate.waiting.wait()
    read = asyncio.ensure_future(other.get("/a"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not change.done()
    assert not read.done()
    assert watcher.fired == 0
    gate.open.set()
    assert (await read)[0] == b"new"
    assert change.done()
    assert watcher.fired == 1


async def test_a_full_disk_refuses_the_change_and_is_survived() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await session.create("/a", b"old")
    before = await session.get("/a")
    watcher = Watcher()
    await session.get("/a", watcher)
    disk.fail_append, disk.torn = errno.ENOSPC, 7
    with pytest.raises(StoreUnavailableError, match="No space left"):
        await session.multi([SetData("/a", b"new"), Create("/b")])
    assert await session.get("/a") == before
    assert await session.exists("/b") is None
    assert watcher.fired == 0
    await session.set("/a", b"later")
    assert (await watcher.next()).path == "/a"
    crashed = (await open_store(MemoryStorage(disk.files))).session()
    assert await crashed.get("/a") == await session.get("/a")


async def test_a_session_survives_a_full_disk_that_kept_it_from_ending() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session, other = store.session(), store.session()
    await session.create("/e", ephemeral=True)
    disk.fail_append = errno.ENOSPC
    with pytest.raises(StoreUnavailableError):
        await session.close()
    assert await other.exists("/e") is not None
    await session.close()
    assert await other.exists("/e") is None


@pytest.mark.parametrize("how", ["write", "blank"])
async def test_after_an_io_error_the_store_stops_and_its_sessions_are_told(how: str) -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session, other = store.session(), store.session()
    lost = asyncio.Event()
    other.on_expired(lost.set)
    await session.create("/a", b"old")
    if how == "write":
        disk.fail_append = errno.EIO
    else:
        disk.fail_append, disk.fail_blank = errno.ENOSPC, errno.EIO
        with pytest.raises(StoreUnavailableError):
            await session.set("/a", b"new")
    with pytest.raises(StoreUnavailableError):
        await session.set("/a", b"new")
    await asyncio.wait_for(lost.wait(), 60)
    with pytest.raises(StoreUnavailableError):
        await session.get("/a")
    with pytest.raises(StoreUnavailableError):
        store.session()
    await store.close()


async def test_two_processes_never_share_a_directory(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    with pytest.raises(StoreLockedError, match="in use"):
        await open_store(tmp_path)
    await store.close()
    await (await open_store(tmp_path)).close()


async def test_closing_the_store_ends_its_sessions(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    session = store.session()
    await store.close()
    await store.close()
    with pytest.raises(SessionExpiredError):
        await session.get("/")
    with pytest.raises(SessionExpiredError):
        store.session()


async def test_a_failing_watch_does_not_keep_others_from_their_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = (await open_store(MemoryStorage())).session()
    await session.create("/a")

    def broken(_event: object) -> None:
        raise RuntimeError("broken watch")

    watcher = Watcher()
    await session.get("/a", broken)
    await session.get("/a", watcher)
    await session.set("/a", b"x")
    assert (await watcher.next()).path == "/a"
    assert "broken watch" in caplog.text


async def test_data_that_is_not_bytes_is_refused_before_it_is_journaled() -> None:
    disk = MemoryStorage()
    session = (await open_store(disk)).session()
    with pytest.raises(TypeError, match="bytes"):
        await session.multi([Create("/a"), Create("/b", "text")])  # type: ignore[arg-type]
    assert await session.exists("/a") is None
    assert disk.appends == 0


async def test_a_cancelled_caller_does_not_stop_the_store() -> None:
    session = (await open_store(MemoryStorage())).session()
    doomed = asyncio.ensure_future(session.create("/a"))
    await asyncio.sleep(0)
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    with pytest.raises(NodeExistsError):
        await session.create("/a")


async def test_ten_thousand_partitions_are_created_and_loaded_with_few_syncs() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await session.ensure_path("/brokers/topics/t/partitions")
    before = disk.appends
    ops = [
        op
        for number in range(10_000)
        for op in (
            Create(f"/brokers/topics/t/partitions/{number}"),
            Create(f"/brokers/topics/t/partitions/{number}/state", b"state"),
        )
    ]
    batches = [ops[start : start + 2000] for start in range(0, len(ops), 2000)]
    assert not any(isinstance(one, Exception) for one in await session.multi_many(batches))
    assert disk.appends == before + 1
    await store.close()
    session = (await open_store(MemoryStorage(disk.files))).session()
    assert len(await session.children("/brokers/topics/t/partitions")) == 10_000

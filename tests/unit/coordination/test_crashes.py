"""A crash at every moment: between any two disk operations, and inside every append."""

from __future__ import annotations

from tests.support.memory_storage import MemoryStorage, open_store

from moldau.coordination import journal
from moldau.coordination.store import Create, SetData


class RecordingStorage(MemoryStorage):
    """Keeps what a crash would have left at each moment, and what was acknowledged by then."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged = -1
        self.moments: list[tuple[int, dict[str, bytes]]] = []

    def replace(self, name: str, data: bytes, *, keep: str | None = None, room: int = 0) -> None:
        self._remember(self.files)
        if keep is not None and name in self.files:
            # The old one has its new name, and the new one is not there yet.
            moved = self.files | {keep: self.files[name]}
            self._remember({one: content for one, content in moved.items() if one != name})
        super().replace(name, data, keep=keep, room=room)
        self._remember(self.files)

    def append(self, name: str, data: bytes, at: int) -> None:
        before = self.files[name][:at]
        for written in range(len(data)):
            self._remember(self.files | {name: before + data[:written]})
        super().append(name, data, at)
        self._remember(self.files)

    def _remember(self, files: dict[str, bytes]) -> None:
        self.moments.append((self.acknowledged, dict(files)))


async def recorded() -> RecordingStorage:
    disk = RecordingStorage()
    store = await open_store(disk, snapshot_after=600)
    session = store.session()
    await session.multi([Create("/count", b"0"), Create("/log")])
    disk.acknowledged = 0
    for number in range(1, 15):
        await session.multi(
            [SetData("/count", b"%d" % number, number - 1), Create(f"/log/{number:02}")]
        )
        disk.acknowledged = number
    await store.close()
    return disk


async def test_whatever_was_acknowledged_survives_a_crash_at_any_moment() -> None:
    disk = await recorded()
    assert disk.replaced.count(journal.SNAPSHOT) >= 2, "snapshots are among the moments"
    for acknowledged, files in disk.moments:
        store = await open_store(MemoryStorage(files))
        session = store.session()
        (found,) = await session.get_many(["/count"])
        if found is None:
            assert acknowledged < 0
            continue
        data, stat = found
        count = int(data)
        assert count in (acknowledged, acknowledged + 1), "the change in flight may be there or not"
        assert stat.version == count
        assert await session.children("/log") == [f"{one:02}" for one in range(1, count + 1)]


async def test_the_store_goes_on_after_a_crash_at_any_moment() -> None:
    disk = await recorded()
    for _, files in disk.moments[::5]:
        second = MemoryStorage(files)
        session = (await open_store(second)).session()
        await session.ensure_path("/count")
        stat = await session.set("/count", b"again")
        third = (await open_store(MemoryStorage(second.files))).session()
        assert await third.get("/count") == (b"again", stat)

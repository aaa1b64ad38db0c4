"""What is on disk after a crash or damage, byte by byte."""

from __future__ import annotations

import errno
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_storage import MemoryStorage, open_store

from moldau.coordination import journal, loading, paths
from moldau.coordination.errors import CoordinationError, StoreCorruptError
from moldau.coordination.store import Create, Delete, Op, SetData
from moldau.coordination.tree import Tree, ZNode

GROUPS: list[list[list[Op]]] = [
    [[Create("/a", b"1")], [Create("/b", b"2", ephemeral=True)]],
    [[SetData("/a", b"22"), Create("/a/c", b"3")]],
    [[Delete("/a/c")], [Create("/a/d")], [SetData("/a/d", b"MJFR")]],
    [[Create("/last", b"x" * 50)]],
]


def written() -> tuple[bytes, list[tuple[int, dict[str, ZNode]]]]:
    """A journal, and after each of its frames its size and the nodes there were."""
    tree = Tree()
    data = journal.encode_journal_header(0)
    states = [(len(data), nodes_of(tree))]
    for group in GROUPS:
        txns = []
        for ops in group:
            txn = tree.commit(ops, 7, 1000).txn
            assert txn is not None
            txns.append(txn)
        data += journal.encode_frame(txns)
        states.append((len(data), nodes_of(tree)))
    return data, states


def nodes_of(tree: Tree) -> dict[str, ZNode]:
    return journal.decode_snapshot(journal.encode_snapshot(tree)).nodes


JOURNAL, STATES = written()
HEADER = STATES[0][0]


def test_a_whole_journal_gives_the_tree_back() -> None:
    loaded = loading.load(MemoryStorage({journal.JOURNAL: JOURNAL}))
    assert loaded.tree.nodes == STATES[-1][1]
    assert loaded.journal_size == len(JOURNAL)
    assert loaded.torn_bytes == 0


def test_a_cut_at_any_byte_keeps_every_whole_frame() -> None:
    for cut in range(HEADER, len(JOURNAL) + 1):
        disk = MemoryStorage({journal.JOURNAL: JOURNAL[:cut]})
        loaded = loading.load(disk)
        whole = [state for state in STATES if state[0] <= cut]
        size, nodes = whole[-1]
        assert loaded.tree.nodes == nodes, cut
        assert loaded.journal_size == size
        assert (loaded.torn_bytes > 0) is (cut > size)
        assert loaded.may_lack_changes is (cut > size)
        loading.open_journal(disk, loaded, 1000)
        assert disk.files[journal.JOURNAL][:size] == JOURNAL[:size]
        assert len(disk.files[journal.JOURNAL]) == loaded.journal_size
        assert not loading.load(disk).torn_bytes


def test_a_journal_cut_inside_its_header_is_reported() -> None:
    for cut in range(HEADER):
        with pytest.raises(StoreCorruptError):
            loading.load(MemoryStorage({journal.JOURNAL: JOURNAL[:cut]}))


def test_damage_in_the_last_frame_drops_that_frame_only() -> None:
    size, nodes = STATES[-2]
    for position in range(size, len(JOURNAL)):
        loaded = loading.load(MemoryStorage({journal.JOURNAL: flipped(JOURNAL, position)}))
        assert loaded.tree.nodes == nodes, position
        assert loaded.torn_bytes > 0


def test_damage_before_the_last_frame_is_reported_wherever_it_is() -> None:
    for position in range(STATES[-2][0]):
        damaged = flipped(JOURNAL, position)
        disk = MemoryStorage({journal.JOURNAL: damaged})
        with pytest.raises(StoreCorruptError):
            loading.load(disk)
        assert disk.files[journal.JOURNAL] == damaged, "nothing may be thrown away"


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def test_the_report_says_where_the_damage_is() -> None:
    position = STATES[1][0] + 20
    with pytest.raises(StoreCorruptError, match=f"byte {STATES[1][0]}") as caught:
        loading.load(MemoryStorage({journal.JOURNAL: flipped(JOURNAL, position)}))
    assert "moldau coordination restore" in str(caught.value)
    assert "remove the journal" not in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from(range(len(STATES))))
@settings(max_examples=100, deadline=None)
def test_garbage_behind_a_good_prefix_is_cut_off(garbage: bytes, frames: int) -> None:
    size, nodes = STATES[frames]
    loaded = loading.load(MemoryStorage({journal.JOURNAL: JOURNAL[:size] + garbage}))
    assert loaded.journal_size == size
    assert loaded.tree.nodes == nodes


def test_zeroed_bytes_in_the_middle_are_reported() -> None:
    for position in range(STATES[-2][0] - 16):
        data = JOURNAL[:position] + bytes(16) + JOURNAL[position + 16 :]
        with pytest.raises(StoreCorruptError):
            loading.load(MemoryStorage({journal.JOURNAL: data}))


def test_a_missing_frame_is_reported() -> None:
    without_second = JOURNAL[: STATES[1][0]] + JOURNAL[STATES[2][0] :]
    with pytest.raises(StoreCorruptError, match="continues with transaction 4 after 2"):
        loading.load(MemoryStorage({journal.JOURNAL: without_second}))


def test_frames_that_the_tree_already_has_are_skipped() -> None:
    twice = JOURNAL[: STATES[1][0]] + JOURNAL[HEADER:]
    loaded = loading.load(MemoryStorage({journal.JOURNAL: twice}))
    assert loaded.tree.nodes == STATES[-1][1]


def test_a_frame_that_does_not_fit_the_tree_is_reported() -> None:
    tree = Tree()
    tree.commit([Create("/x")], 7, 1000)
    orphan = tree.commit([Create("/x/y")], 7, 1000).txn
    assert orphan is not None
    data = journal.encode_journal_header(0) + journal.encode_frame(
        [type(orphan)(1, orphan.time_ms, orphan.changes)]
    )
    with pytest.raises(StoreCorruptError, match="does not fit"):
        loading.load(MemoryStorage({journal.JOURNAL: data}))


def test_a_snapshot_damaged_anywhere_is_reported() -> None:
    tree = Tree()
    tree.commit([Create("/a", b"one"), Create("/a/b", b"two")], 7, 1000)
    snapshot = journal.encode_snapshot(tree)
    assert journal.decode_snapshot(snapshot).nodes == tree.nodes
    for position in range(len(snapshot)):
        with pytest.raises(StoreCorruptError):
            journal.decode_snapshot(flipped(snapshot, position))
        with pytest.raises(StoreCorruptError):
            journal.decode_snapshot(snapshot[:position])
    with pytest.raises(StoreCorruptError):
        journal.decode_snapshot(snapshot + b"x")


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_garbage_is_never_taken_for_a_store(garbage: bytes) -> None:
    for name in (journal.JOURNAL, journal.SNAPSHOT):
        with pytest.raises(CoordinationError):
            loading.load(MemoryStorage({name: garbage}))


def test_room_behind_the_last_frame_is_no_torn_tail() -> None:
    disk = MemoryStorage({journal.JOURNAL: JOURNAL + bytes(5000)})
    loaded = loading.load(disk)
    assert (loaded.journal_size, loaded.torn_bytes) == (len(JOURNAL), 0)
    assert loaded.tree.nodes == STATES[-1][1]
    assert not loaded.may_lack_changes


# Snapshots ---------------------------------------------------------------------------------------


def after_snapshots() -> tuple[dict[str, bytes], Tree]:
    """The files of a store with two snapshots and a change after each, and its tree."""
    storage, tree = MemoryStorage({journal.JOURNAL: JOURNAL}), Tree()
    tree = loading.load(storage).tree
    for number in (1, 2):
        loading.write_snapshot(storage, tree)
        txn = tree.commit([Create(f"/after-{number}")], 7, 1000).txn
        assert txn is not None
        storage.files[journal.JOURNAL] += journal.encode_frame([txn])
    return storage.files, tree


FILES, TREE = after_snapshots()


@pytest.mark.parametrize("how", ["gone", "flipped", "cut", "empty"])
def test_a_damaged_snapshot_is_made_up_for_by_the_one_before_it(how: str) -> None:
    snapshot = FILES[journal.SNAPSHOT]
    damaged = {"flipped": flipped(snapshot, 30), "cut": snapshot[:-3], "empty": b""}
    files = dict(FILES)
    if how == "gone":
        del files[journal.SNAPSHOT]
    else:
        files[journal.SNAPSHOT] = damaged[how]
    found = loading.load(MemoryStorage(files))
    assert found.tree.nodes == TREE.nodes
    assert found.tree.zxid == TREE.zxid
    assert found.used_previous
    assert found.problems
    assert not found.may_lack_changes


def test_a_damaged_snapshot_never_takes_the_place_of_the_last_good_one() -> None:
    """Killed between the two names of a snapshot, a store has to do with the one before."""

    class Killed(MemoryStorage):
        def replace(
            self, name: str, data: bytes, *, keep: str | None = None, room: int = 0
        ) -> None:
            if keep is not None:
                self.files[keep] = self.files.pop(name)
            raise InterruptedError

    storage = Killed(FILES | {journal.SNAPSHOT: flipped(FILES[journal.SNAPSHOT], 30)})
    tree = loading.load(storage).tree
    with pytest.raises(InterruptedError):
        loading.write_snapshot(storage, tree)
    assert loading.load(storage).tree.nodes == TREE.nodes
    storage = Killed(FILES)
    with pytest.raises(InterruptedError):
        loading.write_snapshot(storage, TREE)
    assert loading.load(storage).tree.nodes == TREE.nodes


def test_of_two_damaged_snapshots_nothing_is_guessed() -> None:
    files = FILES | {
        name: flipped(FILES[name], 30) for name in (journal.SNAPSHOT, journal.PREVIOUS_SNAPSHOT)
    }
    with pytest.raises(StoreCorruptError, match="moldau coordination restore"):
        loading.load(MemoryStorage(files))


def test_journals_that_go_back_to_the_beginning_need_no_snapshot() -> None:
    storage = MemoryStorage({journal.JOURNAL: JOURNAL})
    loading.write_snapshot(storage, loading.load(storage).tree)
    storage.files[journal.SNAPSHOT] = b"damaged"
    found = loading.load(storage)
    assert found.tree.nodes == STATES[-1][1]
    assert not found.may_lack_changes


def test_a_missing_journal_is_noted() -> None:
    files = {name: data for name, data in FILES.items() if name != journal.JOURNAL}
    found = loading.load(MemoryStorage(files))
    assert found.may_lack_changes
    assert "/after-1" in found.tree.nodes
    assert "/after-2" not in found.tree.nodes


@pytest.mark.parametrize("damage", ["torn", "gone"])
@pytest.mark.parametrize("step", ["append", "blank", "replace"])
def test_a_kill_at_the_start_does_not_make_a_torn_store_look_sound(damage: str, step: str) -> None:
    files = FILES | {journal.JOURNAL: FILES[journal.JOURNAL][:-5]}
    if damage == "gone":
        del files[journal.JOURNAL]
    storage = MemoryStorage(files)
    setattr(storage, f"fail_{step}", errno.EIO)
    storage.torn = 3
    with suppress(OSError):
        loading.open_journal(storage, loading.load(storage), 1000)
    found = loading.load(storage)
    assert found.may_lack_changes or paths.SUSPECTED_LOSS in found.tree.nodes


async def test_without_room_the_torn_end_stays_until_the_journal_tells_of_it() -> None:
    storage = MemoryStorage(FILES | {journal.JOURNAL: FILES[journal.JOURNAL][:-5]})
    storage.fail_append = errno.ENOSPC
    storage.torn = 3
    store = await open_store(storage)
    assert loading.load(storage).may_lack_changes
    await store.session().create("/more")
    found = loading.load(storage)
    assert not found.torn_bytes
    assert {"/more", paths.SUSPECTED_LOSS} <= found.tree.nodes.keys()
    await store.close()


# Restoring ---------------------------------------------------------------------------------------


def test_what_comes_before_the_damage_is_restored_and_the_rest_set_aside() -> None:
    damaged = flipped(JOURNAL, STATES[2][0] + 20)
    storage = MemoryStorage({journal.JOURNAL: damaged})
    found = loading.restore(storage, 1000)
    assert found.damage
    assert storage.files["coordination.journal.damaged.1"] == damaged
    again = loading.load(storage)
    assert {**again.tree.nodes}.keys() - {"/admin", paths.SUSPECTED_LOSS} == STATES[2][1].keys()
    assert b"damaged at byte" in again.tree.node(paths.SUSPECTED_LOSS).data
    assert not again.may_lack_changes, "the tree itself says so from now on"


def test_what_is_not_damaged_is_not_restored() -> None:
    storage = MemoryStorage(FILES)
    loading.restore(storage, 1000)
    assert storage.files == FILES


@given(
    st.dictionaries(
        st.sampled_from(sorted(FILES)),
        st.tuples(st.sampled_from(["flip", "cut", "gone", "zeros"]), st.integers(0, 10_000)),
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_damage_is_made_up_for_or_reported_and_a_restored_store_loads(
    damage: dict[str, tuple[str, int]],
) -> None:
    files = dict(FILES)
    for name, (kind, position) in damage.items():
        at = position % len(files[name])
        if kind == "flip":
            files[name] = flipped(files[name], at)
        elif kind == "cut":
            files[name] = files[name][:at]
        elif kind == "zeros":
            files[name] = files[name][:at] + bytes(len(files[name]) - at)
        else:
            del files[name]
    storage = MemoryStorage(files)
    try:
        found = loading.load(storage)
    except StoreCorruptError:
        assert storage.files == files
        loading.restore(storage, 1000)
        found = loading.load(storage)
        if len(found.tree.nodes) > 1:
            assert paths.SUSPECTED_LOSS in found.tree.nodes
    else:
        damaged_end = damage.get(journal.JOURNAL, ("", 0))[0] in ("zeros", "cut", "gone")
        if not found.may_lack_changes and not found.is_new and not damaged_end:
            assert found.tree.nodes == TREE.nodes


def test_text_that_is_none_behind_a_right_checksum_is_damage() -> None:
    """Whoever wrote it: msgspec has an error of its own for that."""
    tree = Tree()
    txn = tree.commit([Create("/name", b"1")], 7, 1000).txn
    assert txn is not None
    good = journal.encode_snapshot(tree)
    bad = good.replace(b"/name", b"/\xff\xff\xff\xff")
    sealed = bad[:24] + struct.pack(">I", zlib.crc32(bad[28:], zlib.crc32(bad[8:16]))) + bad[28:]
    with pytest.raises(StoreCorruptError, match="cannot be decoded"):
        journal.decode_snapshot(sealed)
    frame = journal.encode_frame([txn]).replace(b"/name", b"/\xff\xff\xff\xff")
    frame = (
        frame[:8] + struct.pack(">I", zlib.crc32(frame[12:], zlib.crc32(frame[4:8]))) + frame[12:]
    )
    frames = journal.read_frames(journal.encode_journal_header(0) + frame)
    assert frames.txns == []
    assert "cannot be decoded" in (frames.damage or "")

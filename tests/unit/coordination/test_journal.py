"""What is on disk after a crash or damage, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_storage import MemoryStorage

from moldau.coordination import journal
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
    loaded = journal.load(MemoryStorage({journal.JOURNAL: JOURNAL}))
    assert loaded.tree.nodes == STATES[-1][1]
    assert loaded.journal_size == len(JOURNAL)
    assert loaded.torn_bytes == 0


def test_a_cut_at_any_byte_keeps_every_whole_frame() -> None:
    for cut in range(HEADER, len(JOURNAL) + 1):
        disk = MemoryStorage({journal.JOURNAL: JOURNAL[:cut]})
        loaded = journal.load(disk)
        whole = [state for state in STATES if state[0] <= cut]
        size, nodes = whole[-1]
        assert loaded.tree.nodes == nodes, cut
        assert loaded.journal_size == size
        assert loaded.torn_bytes == cut - size
        assert disk.files[journal.JOURNAL] == JOURNAL[:size]


def test_a_journal_cut_inside_its_header_is_reported() -> None:
    for cut in range(HEADER):
        with pytest.raises(StoreCorruptError):
            journal.load(MemoryStorage({journal.JOURNAL: JOURNAL[:cut]}))


def test_damage_in_the_last_frame_drops_that_frame_only() -> None:
    size, nodes = STATES[-2]
    for position in range(size, len(JOURNAL)):
        loaded = journal.load(MemoryStorage({journal.JOURNAL: flipped(JOURNAL, position)}))
        assert loaded.tree.nodes == nodes, position
        assert loaded.torn_bytes == len(JOURNAL) - size


def test_damage_before_the_last_frame_is_reported_wherever_it_is() -> None:
    for position in range(STATES[-2][0]):
        damaged = flipped(JOURNAL, position)
        disk = MemoryStorage({journal.JOURNAL: damaged})
        with pytest.raises(StoreCorruptError):
            journal.load(disk)
        assert disk.files[journal.JOURNAL] == damaged, "nothing may be thrown away"


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def test_the_report_says_where_the_damage_is() -> None:
    position = STATES[1][0] + 20
    with pytest.raises(StoreCorruptError, match=f"byte {STATES[1][0]}") as caught:
        journal.load(MemoryStorage({journal.JOURNAL: flipped(JOURNAL, position)}))
    assert "Restore" in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from(range(len(STATES))))
@settings(max_examples=100, deadline=None)
def test_garbage_behind_a_good_prefix_is_cut_off(garbage: bytes, frames: int) -> None:
    size, nodes = STATES[frames]
    loaded = journal.load(MemoryStorage({journal.JOURNAL: JOURNAL[:size] + garbage}))
    assert loaded.journal_size == size
    assert loaded.tree.nodes == nodes


def test_zeroed_bytes_in_the_middle_are_reported() -> None:
    for position in range(STATES[-2][0] - 16):
        data = JOURNAL[:position] + bytes(16) + JOURNAL[position + 16 :]
        with pytest.raises(StoreCorruptError):
            journal.load(MemoryStorage({journal.JOURNAL: data}))


def test_a_missing_frame_is_reported() -> None:
    without_second = JOURNAL[: STATES[1][0]] + JOURNAL[STATES[2][0] :]
    with pytest.raises(StoreCorruptError, match="continues with transaction 4 after 2"):
        journal.load(MemoryStorage({journal.JOURNAL: without_second}))


def test_frames_that_the_tree_already_has_are_skipped() -> None:
    twice = JOURNAL[: STATES[1][0]] + JOURNAL[HEADER:]
    loaded = journal.load(MemoryStorage({journal.JOURNAL: twice}))
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
        journal.load(MemoryStorage({journal.JOURNAL: data}))


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
            journal.load(MemoryStorage({name: garbage}))

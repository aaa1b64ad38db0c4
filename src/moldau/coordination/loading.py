"""Opening a store: from the files on disk to the tree, and what to do where they are damaged.

``examine`` only reads. It takes the snapshot, or if that is damaged the one before it, and replays
the journals upon it as far as they are good. What it had to do without is *damage* if acknowledged
changes are in it, which a start does not pass over: ``restore`` does, when somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moldau.coordination import paths
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.journal import (
    JOURNAL,
    JOURNAL_HEADER_SIZE,
    PREVIOUS_JOURNAL,
    PREVIOUS_SNAPSHOT,
    SNAPSHOT,
    Frames,
    check_snapshot,
    decode_snapshot,
    encode_frame,
    encode_journal_header,
    encode_snapshot,
    read_frames,
)
from moldau.coordination.storage import Storage
from moldau.coordination.store import Create
from moldau.coordination.tree import Tree, Txn
from moldau.machine.errors import is_full, is_passing

SMALLEST_RESERVE: Final = 256 * 1024
_NOBODY: Final = 0
"""The session of what no session does."""

ADVICE: Final = (
    "Nothing was changed. Topics and their settings are kept with their partitions, too: do not "
    "remove any file. Put the store's files back from a copy, or run 'moldau coordination "
    "restore DIR' on the directory: it keeps what can be read, sets the damaged files aside, and "
    "the next start takes up again what is missing ('moldau coordination check DIR' tells more)"
)


@dataclass(slots=True)
class Found:
    """What is on disk."""

    tree: Tree = field(default_factory=Tree)
    journal_size: int = 0
    """Of the good part of the journal; 0 if there is none to go on with."""
    torn_bytes: int = 0
    is_new: bool = False
    """There is no store yet."""
    used_previous: bool = False
    """The tree was put together without the snapshot."""
    lost_journal: bool = False
    """There is a snapshot, but no journal."""
    snapshot_size: int = 0
    problems: list[str] = field(default_factory=list)
    """What was wrong and could be done without."""
    damage: list[str] = field(default_factory=list)
    """What is lost if nothing else gives it back."""
    unwritten: list[Txn] = field(default_factory=list)
    """What is in the tree and, for want of room, not in the journal."""

    @property
    def may_lack_changes(self) -> bool:
        """Whether something that was acknowledged may be missing, as far as anybody can tell."""
        return bool(self.torn_bytes or self.lost_journal or self.damage)


def examine(storage: Storage) -> Found:
    """Reads the files; changes nothing."""
    found = Found()
    data = storage.read(JOURNAL)
    journal = _frames(data, found.damage)
    problem = _read_snapshot(found, storage)
    if problem is not None or journal is None or journal.base_zxid > found.tree.zxid:
        # Only then: what came before the last snapshot is in it otherwise.
        previous = _frames(storage.read(PREVIOUS_JOURNAL), found.problems)
        if problem is not None:
            _do_without_snapshot(found, storage, problem, journal, previous)
        if previous is not None:
            _replay(found, previous, "the journal before the last snapshot")
    if journal is None:
        found.lost_journal = data is None and not found.is_new
        return found
    if journal.damage is not None:
        found.damage.append(journal.damage)
    if journal.base_zxid > found.tree.zxid:
        found.damage.append(
            f"the journal continues a snapshot of transaction {journal.base_zxid}, but what there "
            f"is ends at {found.tree.zxid}"
        )
        return found
    found.journal_size, found.torn_bytes = journal.size, journal.torn_bytes
    _replay(found, journal, "the journal")
    return found


def _frames(data: bytes | None, problems: list[str]) -> Frames | None:
    if data is None:
        return None
    try:
        return read_frames(data)
    except StoreCorruptError as error:
        problems.append(str(error))
        return None


def _read_snapshot(found: Found, storage: Storage) -> str | None:
    """Returns what is wrong with the snapshot."""
    data = storage.read(SNAPSHOT)
    if data is None:
        return "the snapshot is missing"
    try:
        found.tree = decode_snapshot(data)
    except StoreCorruptError as error:
        return str(error)
    found.snapshot_size = len(data)
    return None


def _do_without_snapshot(
    found: Found,
    storage: Storage,
    problem: str,
    journal: Frames | None,
    previous_journal: Frames | None,
) -> None:
    """Take the snapshot before it, or none if there was none yet."""
    is_missing = storage.read(SNAPSHOT) is None
    data = storage.read(PREVIOUS_SNAPSHOT)
    journals = [one for one in (journal, previous_journal) if one is not None]
    begins = min((one.base_zxid for one in journals), default=-1)
    if is_missing and data is None and previous_journal is None:
        if begins == 0:
            return
        found.is_new = storage.read(JOURNAL) is None
        if found.is_new:
            return
    found.used_previous = True
    if data is not None:
        try:
            found.tree = decode_snapshot(data)
            found.problems.append(problem)
            return
        except StoreCorruptError as error:
            problem += f", and of the one before it: {error}"
    # The journals hold everything if they go back to the beginning.
    (found.problems if begins == 0 else found.damage).append(problem)


def _replay(found: Found, frames: Frames, what: str) -> None:
    tree = found.tree
    try:
        for txn in frames.txns:
            if txn.zxid > tree.zxid:
                tree.replay(txn)
    except StoreCorruptError as error:
        found.damage.append(f"{what} cannot be used: {error}")


def load(storage: Storage) -> Found:
    """Read what is on disk; changes nothing.

    Raises StoreCorruptError, which says what to do, if there is damage.
    """
    found = examine(storage)
    if found.damage:
        raise StoreCorruptError(f"{'; '.join(found.damage)}. {ADVICE}")
    return found


def open_journal(storage: Storage, found: Found, now_ms: int) -> None:
    """Make a journal to go on with: an empty one for a new store, or without its torn tail.

    If changes may be missing, the journal says so before its torn tail is gone: a kill in between
    must not leave a store that looks sound.
    """
    header = encode_journal_header(found.tree.zxid)
    mark = None
    if found.may_lack_changes:
        mark = mark_loss(found.tree, "the journal's end is missing", now_ms)
    frame = b"" if mark is None else encode_frame([mark])
    if found.journal_size == 0:
        storage.replace(JOURNAL, header + frame)
        found.journal_size = len(header) + len(frame)
        return
    if mark is not None:
        try:
            storage.append(JOURNAL, frame, found.journal_size)
        except OSError as error:
            if not is_full(error) and not is_passing(error):
                raise
            found.unwritten.append(mark)
            return  # the torn tail stays until there is room to say what it says
        found.journal_size += len(frame)
    if found.torn_bytes:
        storage.blank(JOURNAL, found.journal_size)


def restore(storage: Storage, now_ms: int) -> Found:
    """Make a store that starts of what can be read; damaged files stay, under other names.

    The tree gets a mark that something may be missing, for the start to look after.
    """
    found = examine(storage)
    if not found.damage:
        return found
    for name in (SNAPSHOT, JOURNAL, PREVIOUS_SNAPSHOT, PREVIOUS_JOURNAL):
        data = storage.read(name)
        if data is not None:
            storage.replace(_free_name(storage, f"{name}.damaged"), data)
    mark_loss(found.tree, "; ".join(found.damage), now_ms)
    write_snapshot(storage, found.tree)
    return found


def _free_name(storage: Storage, name: str) -> str:
    number = 1
    while storage.read(f"{name}.{number}") is not None:
        number += 1
    return f"{name}.{number}"


def mark_loss(tree: Tree, reason: str, now_ms: int) -> Txn | None:
    """Note in the tree that changes may be missing; None if that is noted already."""
    if paths.SUSPECTED_LOSS in tree.nodes or len(tree.nodes) == 1:
        return None
    parent = paths.SUSPECTED_LOSS.rpartition("/")[0]
    ops = [] if parent in tree.nodes else [Create(parent)]
    return tree.commit([*ops, Create(paths.SUSPECTED_LOSS, reason.encode())], _NOBODY, now_ms).txn


def reserve_for(snapshot_size: int) -> int:
    """Returns the room that the journal keeps for itself: for a few starts, each of which writes a
    state for every partition, and for the way out of a full disk.
    """
    return max(SMALLEST_RESERVE, 4 * snapshot_size)


def _is_sound(snapshot: bytes | None) -> bool:
    if snapshot is None:
        return False
    try:
        check_snapshot(snapshot)
    except StoreCorruptError:
        return False
    return True


def write_snapshot(storage: Storage, tree: Tree) -> tuple[int, int]:
    """Write the whole tree and begin a new journal; what was there stays, as the previous ones.

    Returns the sizes of both. Whatever of it a crash leaves out, the rest gives the same tree.
    """
    snapshot = encode_snapshot(tree)
    # A damaged one must not take the place of the last good one.
    keeps = _is_sound(storage.read(SNAPSHOT))
    storage.replace(SNAPSHOT, snapshot, keep=PREVIOUS_SNAPSHOT if keeps else None)
    header = encode_journal_header(tree.zxid)
    storage.replace(JOURNAL, header, keep=PREVIOUS_JOURNAL, room=reserve_for(len(snapshot)))
    return len(snapshot), JOURNAL_HEADER_SIZE

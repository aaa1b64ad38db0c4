"""The tree of nodes: pure, synchronous, no files and no loop.

``commit`` checks and applies one transaction and tells how to undo it, because the journal may
refuse it afterwards. ``replay`` applies what the journal holds; both go through the same three
mutators, so a replayed tree is the tree that was acknowledged, versions and zxids included.

Nodes live in one flat dict by path (as in ZooKeeper's own DataTree): a get is one lookup, and a
snapshot of 20,000 nodes decodes in about 10 ms because the nodes are msgspec structs already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from moldau.coordination.errors import (
    BadPathError,
    BadVersionError,
    CoordinationError,
    EphemeralParentError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreCorruptError,
)
from moldau.coordination.sessions import Session
from moldau.coordination.store import (
    ANY_VERSION,
    Create,
    Delete,
    Op,
    OpResult,
    SetData,
    Stat,
)

CREATE, SET, DELETE, RESTART, OPEN_SESSION, CLOSE_SESSION = 0, 1, 2, 3, 4, 5
"""Kinds of change in the journal. RESTART: the process ended, so every session is over and every
ephemeral node gone. A session that is kept opens with one change and closes with another, behind
the deletions of its ephemeral nodes."""

_VALID_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f]+)+")


class ZNode(msgspec.Struct, array_like=True, gc=False):
    """A node as it lives in memory and in the snapshot."""

    path: str
    data: bytes
    version: int
    cversion: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    owner: int


class Change(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One effect of a transaction: kind, path, new data, owner's session id if ephemeral."""

    kind: int
    path: str
    data: bytes = b""
    owner: int = 0


_decode_session = msgspec.msgpack.Decoder(Session).decode
_encode_session = msgspec.msgpack.Encoder().encode


class Txn(msgspec.Struct, array_like=True, frozen=True):
    """A transaction as the journal keeps it."""

    zxid: int
    time_ms: int
    changes: list[Change]


class Undo(msgspec.Struct, gc=False):
    """What a change overwrote: enough to put it back exactly."""

    kind: int
    path: str
    node: ZNode | None
    parent_cversion: int
    parent_pzxid: int
    session: Session | None = None


class Committed(msgspec.Struct):
    """A transaction that the tree has taken; ``txn`` is None if it changed nothing."""

    results: list[OpResult]
    txn: Txn | None
    undo: list[Undo]


def parent_of(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def check_path(path: str) -> None:
    if path != "/" and _VALID_PATH.fullmatch(path) is None:
        raise BadPathError(path)


def _check_data(data: object) -> None:
    # Anything else would be journaled in a form that cannot be read back.
    if type(data) is not bytes:
        raise TypeError(f"a node holds bytes, not {type(data).__name__}")


class Tree:
    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, ZNode] = {"/": ZNode("/", b"", 0, 0, 0, 0, 0, 0, 0, 0)}
        self.sessions: dict[int, Session] = {}
        """Those that are kept; a session inside the process is not among them."""
        self._children: dict[str, set[str]] = {}
        self._ephemerals: dict[int, set[str]] = {}

    @classmethod
    def restore(cls, zxid: int, nodes: Iterable[ZNode], sessions: Iterable[Session] = ()) -> Tree:
        """Returns the tree of a snapshot."""
        tree = cls()
        tree.zxid = zxid
        tree.sessions = {session.id: session for session in sessions}
        tree.nodes = {node.path: node for node in nodes}
        if "/" not in tree.nodes:
            raise StoreCorruptError("the snapshot has no root node")
        children = tree._children
        for path, node in tree.nodes.items():
            if path == "/":
                continue
            at = path.rfind("/")
            parent = path[:at] or "/"
            siblings = children.get(parent)
            if siblings is None:
                if parent not in tree.nodes:
                    raise StoreCorruptError(f"the snapshot has {path} but not its parent")
                siblings = children[parent] = set()
            siblings.add(path[at + 1 :])
            if node.owner:
                tree._ephemerals.setdefault(node.owner, set()).add(path)
        return tree

    # Reading

    def node(self, path: str) -> ZNode:
        node = self.nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNodeError(path)
        return node

    def stat(self, node: ZNode) -> Stat:
        children = self._children.get(node.path)
        return Stat(
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            node.owner,
            len(node.data),
            len(children) if children is not None else 0,
        )

    def children(self, path: str) -> list[str]:
        self.node(path)
        return sorted(self._children.get(path, ()))

    def ephemerals_of(self, session_id: int) -> list[str]:
        return sorted(self._ephemerals.get(session_id, ()))

    def child_count(self, path: str) -> int:
        return len(self._children.get(path, ()))

    def ephemeral_count(self, session_id: int) -> int:
        return len(self._ephemerals.get(session_id, ()))

    @property
    def has_sessions(self) -> bool:
        """Whether anything is here that ends with a session."""
        return bool(self._ephemerals or self.sessions)

    def orphans(self) -> list[str]:
        """Returns the ephemeral nodes of sessions that are not kept."""
        owners = self._ephemerals.keys() - self.sessions.keys()
        return sorted(path for owner in owners for path in self._ephemerals[owner])

    # Writing

    def commit(self, ops: Sequence[Op], session_id: int, now_ms: int) -> Committed:
        """Apply all operations as one transaction, or raise and leave the tree as it was."""
        zxid = self.zxid + 1
        results: list[OpResult] = []
        changes: list[Change] = []
        undo: list[Undo] = []
        for index, op in enumerate(ops):
            try:
                if isinstance(op, Create):
                    results.append(self._create(op, session_id, zxid, now_ms, changes, undo))
                elif isinstance(op, SetData):
                    node = self._checked(op.path, op.version)
                    undo.append(self._set(node, op.data, zxid, now_ms))
                    changes.append(Change(SET, op.path, op.data))
                    results.append(self.stat(node))
                elif isinstance(op, Delete):
                    node = self._checked(op.path, op.version)
                    if self._children.get(op.path):
                        raise NotEmptyError(op.path)
                    if op.path == "/":
                        raise BadPathError(op.path)
                    undo.append(self._remove(node, zxid))
                    changes.append(Change(DELETE, op.path))
                    results.append(None)
                else:
                    self._checked(op.path, op.version)
                    results.append(None)
            except Exception as error:
                self._undo(undo)
                if isinstance(error, CoordinationError):
                    error.index = index
                raise
        if not changes:
            return Committed(results, None, [])
        self.zxid = zxid
        return Committed(results, Txn(zxid, now_ms, changes), undo)

    def open_session(self, session: Session, now_ms: int) -> Committed:
        """Take a session up that is to be kept."""
        self.zxid += 1
        self.sessions[session.id] = session
        change = Change(OPEN_SESSION, "", _encode_session(session), session.id)
        undo = Undo(OPEN_SESSION, "", None, 0, 0, session)
        return Committed([], Txn(self.zxid, now_ms, [change]), [undo])

    def close_session(self, session_id: int, now_ms: int) -> Committed:
        """Delete the ephemeral nodes of a session, and the session itself if it is kept."""
        paths = self.ephemerals_of(session_id)
        session = self.sessions.pop(session_id, None)
        if not paths and session is None:
            return Committed([], None, [])
        self.zxid += 1
        undo = [self._remove(self.nodes[path], self.zxid) for path in paths]
        changes = [Change(DELETE, path) for path in paths]
        if session is not None:
            undo.append(Undo(CLOSE_SESSION, "", None, 0, 0, session))
            changes.append(Change(CLOSE_SESSION, "", b"", session_id))
        return Committed([], Txn(self.zxid, now_ms, changes), undo)

    def restart(self, now_ms: int) -> Txn:
        """Forget every session and every ephemeral node: they ended with the process."""
        self.zxid += 1
        self._drop_sessions(self.zxid)
        return Txn(self.zxid, now_ms, [Change(RESTART, "/")])

    def rollback(self, committed: Sequence[Committed]) -> None:
        """Take back transactions that the journal refused; all that came after included."""
        for transaction in reversed(committed):
            self._undo(transaction.undo)
            if transaction.txn is not None:
                self.zxid = transaction.txn.zxid - 1

    def replay(self, txn: Txn) -> None:
        """Apply a transaction of the journal; it must be the next one."""
        if txn.zxid != self.zxid + 1:
            raise StoreCorruptError(
                f"the journal continues with transaction {txn.zxid} after {self.zxid}"
            )
        zxid = self.zxid = txn.zxid
        nodes = self.nodes
        try:
            for change in txn.changes:
                if change.kind == CREATE:
                    if change.path in nodes:
                        raise NodeExistsError(change.path)
                    self._insert(change.path, change.data, change.owner, zxid, txn.time_ms)
                elif change.kind == SET:
                    self._set(nodes[change.path], change.data, zxid, txn.time_ms)
                elif change.kind == DELETE:
                    self._remove(nodes[change.path], zxid)
                elif change.kind == RESTART:
                    self._drop_sessions(zxid)
                elif change.kind == OPEN_SESSION:
                    self.sessions[change.owner] = _decode_session(change.data)
                elif change.kind == CLOSE_SESSION:
                    del self.sessions[change.owner]
                else:
                    raise StoreCorruptError(f"unknown kind of change {change.kind}")
        except (KeyError, NodeExistsError, msgspec.DecodeError) as error:
            raise StoreCorruptError(
                f"transaction {zxid} of the journal does not fit the tree: {error}"
            ) from error

    def _create(
        self,
        op: Create,
        session_id: int,
        zxid: int,
        now_ms: int,
        changes: list[Change],
        undo: list[Undo],
    ) -> str:
        path = op.path
        if op.sequence:
            # The slash variant "/queue/" + number is legal for sequence nodes: check what results.
            parent = self.nodes.get(parent_of(path))
            path = f"{path}{parent.cversion if parent is not None else 0:010d}"
        if path in self.nodes:
            raise NodeExistsError(path)
        check_path(path)
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            raise NoNodeError(parent_path)
        if parent.owner:
            raise EphemeralParentError(parent_path)
        owner = session_id if op.ephemeral else 0
        undo.append(self._insert(path, op.data, owner, zxid, now_ms))
        changes.append(Change(CREATE, path, op.data, owner))
        return path

    def _checked(self, path: str, version: int) -> ZNode:
        node = self.node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(path, version, node.version)
        return node

    # The three mutators

    def _insert(self, path: str, data: bytes, owner: int, zxid: int, now_ms: int) -> Undo:
        _check_data(data)
        at = path.rfind("/")
        parent_path = path[:at] or "/"
        parent = self.nodes[parent_path]
        undo = Undo(CREATE, path, None, parent.cversion, parent.pzxid)
        siblings = self._children.get(parent_path)
        if siblings is None:
            siblings = self._children[parent_path] = set()
        siblings.add(path[at + 1 :])
        parent.cversion += 1
        parent.pzxid = zxid
        self.nodes[path] = ZNode(path, data, 0, 0, zxid, zxid, zxid, now_ms, now_ms, owner)
        if owner:
            self._ephemerals.setdefault(owner, set()).add(path)
        return undo

    def _set(self, node: ZNode, data: bytes, zxid: int, now_ms: int) -> Undo:
        _check_data(data)
        undo = Undo(SET, node.path, msgspec.structs.replace(node), 0, 0)
        node.data = data
        node.version += 1
        node.mzxid = zxid
        node.mtime = now_ms
        return undo

    def _remove(self, node: ZNode, zxid: int) -> Undo:
        path = node.path
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        undo = Undo(DELETE, path, node, parent.cversion, parent.pzxid)
        self._unlink(path, parent_path)
        parent.cversion += 1
        parent.pzxid = zxid
        if node.owner:
            self._disown(node)
        return undo

    def _unlink(self, path: str, parent_path: str) -> None:
        del self.nodes[path]
        siblings = self._children[parent_path]
        siblings.discard(path[path.rfind("/") + 1 :])
        if not siblings:
            del self._children[parent_path]

    def _disown(self, node: ZNode) -> None:
        owned = self._ephemerals[node.owner]
        owned.discard(node.path)
        if not owned:
            del self._ephemerals[node.owner]

    def _drop_sessions(self, zxid: int) -> None:
        self.sessions.clear()
        paths = sorted(path for owned in self._ephemerals.values() for path in owned)
        for path in paths:
            self._remove(self.nodes[path], zxid)

    def _undo(self, undo: list[Undo]) -> None:
        for entry in reversed(undo):
            path = entry.path
            if entry.kind == SET:
                assert entry.node is not None
                self.nodes[path] = entry.node
                continue
            if entry.session is not None:
                if entry.kind == OPEN_SESSION:
                    del self.sessions[entry.session.id]
                else:
                    self.sessions[entry.session.id] = entry.session
                continue
            parent_path = parent_of(path)
            if entry.kind == CREATE:
                node = self.nodes[path]
                self._unlink(path, parent_path)
                if node.owner:
                    self._disown(node)
            else:
                assert entry.node is not None
                self.nodes[path] = entry.node
                self._children.setdefault(parent_path, set()).add(path[path.rfind("/") + 1 :])
                if entry.node.owner:
                    self._ephemerals.setdefault(entry.node.owner, set()).add(path)
            parent = self.nodes[parent_path]
            parent.cversion = entry.parent_cversion
            parent.pzxid = entry.parent_pzxid

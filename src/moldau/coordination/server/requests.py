"""What a client asks for, as work that the store does in turn: its result is the answer's body.

There are no access control lists: whoever reaches the port may do everything. Nodes are made with
ZooKeeper's open list and show it; any other list is refused, rather than taken and not enforced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import CoordinationError, NoNodeError
from moldau.coordination.server import jute, limits
from moldau.coordination.server.jute import MalformedError, Reader
from moldau.coordination.server.protocol import Code, Op, RefusedError, code_of
from moldau.coordination.store import (
    Check,
    Create,
    Delete,
    EventType,
    OpResult,
    SetData,
    Stat,
    Watch,
    WatchEvent,
)
from moldau.coordination.store import Op as Change
from moldau.coordination.tree import parent_of

_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2
_ALL_PERMISSIONS: Final = 31
_OPEN_ACL: Final = (_ALL_PERMISSIONS, "world", "anyone")
_END_OF_MULTI: Final = jute.integer(-1) + b"\1" + jute.integer(-1)


class Request(NamedTuple):
    """Whose request it is, and where its watches are told."""

    store: EmbeddedStore
    session: EmbeddedSession
    watch: Watch


Work: TypeAlias = Callable[[], bytes]


class Prepared(NamedTuple):
    work: Work
    reads_only: bool = True


def prepare(request: Request, op: int, reader: Reader) -> Prepared:
    """Returns what to do; MalformedError if the body is none of this op."""
    preparing = _PREPARE.get(op)
    try:
        if preparing is None:
            raise RefusedError(Code.UNIMPLEMENTED)
        return preparing(request, reader)
    except RefusedError as error:
        return Prepared(partial(_refuse, error.code))


def _refuse(code: Code) -> bytes:
    raise RefusedError(code)


def _path(reader: Reader) -> str:
    path = reader.buffer()
    if len(path) > limits.LONGEST_PATH:
        raise RefusedError(Code.BAD_ARGUMENTS)
    return jute.text(path)


def _operations(reader: Reader) -> Iterator[int]:
    """Yields the kinds of operations in a multi; the body of each is to be read before the next."""
    for _ in range(limits.MOST_OPERATIONS + 1):
        op, is_end, _unused = reader.integer(), reader.boolean(), reader.integer()
        if is_end:
            return
        yield op
    raise RefusedError(Code.QUOTA_EXCEEDED)


# Reading


def _watch(request: Request, *, wanted: bool) -> Watch | None:
    if not wanted:
        return None
    _check_watches(request, 1)
    return request.watch


def _check_watches(request: Request, more: int) -> None:
    if request.store.watches.count_of(request.session.session_id) + more > limits.MOST_WATCHES:
        raise RefusedError(Code.QUOTA_EXCEEDED)


def _exists(request: Request, reader: Reader) -> Prepared:
    path, watched = _path(reader), reader.boolean()

    def work() -> bytes:
        found = request.session.read_stat(path, _watch(request, wanted=watched))
        if found is None:
            raise NoNodeError(path)
        return jute.stat(found)

    return Prepared(work)


def _get_data(request: Request, reader: Reader) -> Prepared:
    path, watched = _path(reader), reader.boolean()

    def work() -> bytes:
        data, stat = request.session.read_data(path, _watch(request, wanted=watched))
        return jute.buffer(data) + jute.stat(stat)

    return Prepared(work)


def _get_children(request: Request, reader: Reader, *, with_stat: bool) -> Prepared:
    path, watched = _path(reader), reader.boolean()

    def work() -> bytes:
        names = jute.strings(request.session.read_children(path, _watch(request, wanted=watched)))
        return names + _stat(request, path) if with_stat else names

    return Prepared(work)


def _multi_read(request: Request, reader: Reader) -> Prepared:
    """Several nodes at once; each answers for itself. There are no watches in it."""
    asked: list[tuple[int, str]] = []
    for op in _operations(reader):
        if op not in (Op.GET_DATA, Op.GET_CHILDREN):
            raise MalformedError(f"operation {op} in a multi-read")
        asked.append((op, _path(reader)))
        reader.boolean()

    def work() -> bytes:
        parts: list[bytes] = []
        tree = request.store.tree
        size = children = 0
        for op, path in asked:
            children += tree.child_count(path) if op == Op.GET_CHILDREN else 0
            if size > limits.LARGEST_ANSWER or children > limits.MOST_CHILDREN:
                raise RefusedError(Code.BAD_ARGUMENTS)
            parts.append(_read_one(request.session, op, path))
            size += len(parts[-1])
        return b"".join([*parts, _END_OF_MULTI])

    return Prepared(work)


def _read_one(session: EmbeddedSession, op: int, path: str) -> bytes:
    session.check_alive()
    try:
        if op == Op.GET_DATA:
            data, stat = session.read_data(path, None)
            body = jute.buffer(data) + jute.stat(stat)
        else:
            body = jute.strings(session.read_children(path, None))
    except CoordinationError as error:
        return _error_in_multi(code_of(error))
    return jute.integer(op) + b"\0" + jute.integer(Code.OK) + body


def _get_acl(request: Request, reader: Reader) -> Prepared:
    path = _path(reader)
    permissions, scheme, identity = _OPEN_ACL
    acl = jute.integer(permissions) + jute.string(scheme) + jute.string(identity)
    return Prepared(lambda: jute.integer(1) + acl + _stat(request, path))


def _set_acl(request: Request, reader: Reader) -> Prepared:
    path = _path(reader)
    _check_acl(reader)
    reader.integer()  # the version of the list
    return Prepared(lambda: _stat(request, path))


def _sync(request: Request, reader: Reader) -> Prepared:
    path = _path(reader)

    def work() -> bytes:
        request.session.check_alive()
        return jute.string(path)

    return Prepared(work)


def _stat(request: Request, path: str) -> bytes:
    tree = request.store.tree
    return jute.stat(tree.stat(tree.node(path)))


# Changing


class _Asked(NamedTuple):
    """One change, and what is to be told of it."""

    op: int
    change: Change

    def body(self, request: Request, result: OpResult) -> bytes:
        if isinstance(result, Stat):
            return jute.stat(result)
        if not isinstance(result, str):
            return b""
        path = jute.string(result)
        return path + _stat(request, result) if self.op == Op.CREATE_2 else path


def _read_create(op: int, reader: Reader) -> _Asked:
    path, data = _path(reader), reader.buffer()
    _check_acl(reader)
    flags = reader.integer()
    if flags & ~(_EPHEMERAL | _SEQUENCE):
        raise RefusedError(Code.UNIMPLEMENTED)  # containers, and nodes that go with time
    return _Asked(op, Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENCE)))


def _check_acl(reader: Reader) -> None:
    acl = reader.vector(
        lambda: (reader.integer(), reader.string(), reader.string()), limits.MOST_ACL_ENTRIES
    )
    if acl is None or any(entry != _OPEN_ACL for entry in acl):
        # What comes behind it cannot be read any more.
        raise RefusedError(Code.INVALID_ACL)


def _read_delete(op: int, reader: Reader) -> _Asked:
    return _Asked(op, Delete(_path(reader), reader.integer()))


def _read_set_data(op: int, reader: Reader) -> _Asked:
    return _Asked(op, SetData(_path(reader), reader.buffer(), reader.integer()))


def _read_check(op: int, reader: Reader) -> _Asked:
    return _Asked(op, Check(_path(reader), reader.integer()))


_CHANGES: Final[dict[int, Callable[[int, Reader], _Asked]]] = {
    Op.CREATE: _read_create,
    Op.CREATE_2: _read_create,
    Op.DELETE: _read_delete,
    Op.SET_DATA: _read_set_data,
    Op.CHECK: _read_check,
}


def _change(op: Op, request: Request, reader: Reader) -> Prepared:
    asked = _CHANGES[op](op, reader)

    def work() -> bytes:
        _check_room(request, [asked.change])
        (result,) = request.session.commit([asked.change])
        return asked.body(request, result)

    return Prepared(work, reads_only=False)


def _multi(request: Request, reader: Reader) -> Prepared:
    asked: list[_Asked] = []
    for op in _operations(reader):
        read = _CHANGES.get(op)
        if read is None:
            raise MalformedError(f"operation {op} in a multi")
        asked.append(read(op, reader))

    def work() -> bytes:
        changes = [one.change for one in asked]
        _check_room(request, changes)
        try:
            results = request.session.commit(changes)
        except CoordinationError as error:
            request.session.check_alive()
            return _failed_multi(len(asked), error)
        parts = [
            jute.integer(one.op) + b"\0" + jute.integer(Code.OK) + one.body(request, result)
            for one, result in zip(asked, results, strict=True)
        ]
        return b"".join([*parts, _END_OF_MULTI])

    return Prepared(work, reads_only=False)


def _check_room(request: Request, changes: Sequence[Change]) -> None:
    """Refuse what would make a node, or the end of a session, too large for one turn."""
    tree = request.store.tree
    created = [change for change in changes if isinstance(change, Create)]
    ephemerals = sum(create.ephemeral for create in created)
    if ephemerals and (
        tree.ephemeral_count(request.session.session_id) + ephemerals > limits.MOST_EPHEMERALS
    ):
        raise RefusedError(Code.QUOTA_EXCEEDED)
    for parent, more in Counter(parent_of(create.path) for create in created).items():
        if tree.child_count(parent) + more > limits.MOST_CHILDREN:
            raise RefusedError(Code.QUOTA_EXCEEDED)


def _failed_multi(count: int, error: CoordinationError) -> bytes:
    """Those before the one that failed are taken back, those behind it were not tried."""
    codes = [Code.OK] * error.index + [code_of(error)]
    codes += [Code.RUNTIME_INCONSISTENCY] * (count - len(codes))
    return b"".join([*map(_error_in_multi, codes), _END_OF_MULTI])


def _error_in_multi(code: Code) -> bytes:
    return jute.integer(-1) + b"\0" + jute.integer(code) + jute.integer(code)


# Watches of an earlier connection


def _set_watches(request: Request, reader: Reader, *, persistent: bool) -> Prepared:
    """Leave watches again; of what has happened since their client last heard, tell at once."""
    seen = reader.long()
    data, missing, children = (_paths(reader) for _ in range(3))
    if persistent and (_paths(reader) or _paths(reader)):
        raise RefusedError(Code.UNIMPLEMENTED)
    store, session_id = request.store, request.session.session_id

    def work() -> bytes:
        request.session.check_alive()
        _check_watches(request, len(data) + len(missing) + len(children))
        nodes, watches = store.tree.nodes, store.watches
        for path in data:
            node = nodes.get(path)
            if node is None:
                tell(EventType.DELETED, path)
            elif node.mzxid > seen:
                tell(EventType.CHANGED, path)
            else:
                store.once_durable(partial(watches.add_data_watch, path, session_id, request.watch))
        for path in missing:
            if path in nodes:
                tell(EventType.CREATED, path)
            else:
                store.once_durable(partial(watches.add_data_watch, path, session_id, request.watch))
        for path in children:
            node = nodes.get(path)
            if node is None:
                tell(EventType.DELETED, path)
            elif node.pzxid > seen:
                tell(EventType.CHILDREN, path)
            else:
                store.once_durable(
                    partial(watches.add_child_watch, path, session_id, request.watch)
                )
        return b""

    def tell(kind: EventType, path: str) -> None:
        store.once_durable(partial(request.watch, WatchEvent(kind, path)))

    return Prepared(work)


def _paths(reader: Reader) -> list[str]:
    paths = reader.vector(partial(_path, reader), limits.MOST_WATCHES)
    if paths is None:
        raise RefusedError(Code.QUOTA_EXCEEDED)
    return paths


_PREPARE: Final[dict[int, Callable[[Request, Reader], Prepared]]] = {
    Op.EXISTS: _exists,
    Op.GET_DATA: _get_data,
    Op.GET_CHILDREN: partial(_get_children, with_stat=False),
    Op.GET_CHILDREN_2: partial(_get_children, with_stat=True),
    Op.GET_ACL: _get_acl,
    Op.SET_ACL: _set_acl,
    Op.SYNC: _sync,
    Op.CREATE: partial(_change, Op.CREATE),
    Op.CREATE_2: partial(_change, Op.CREATE_2),
    Op.DELETE: partial(_change, Op.DELETE),
    Op.SET_DATA: partial(_change, Op.SET_DATA),
    Op.MULTI: _multi,
    Op.MULTI_READ: _multi_read,
    Op.SET_WATCHES: partial(_set_watches, persistent=False),
    Op.SET_WATCHES_2: partial(_set_watches, persistent=True),
}

"""What a client asks for, as work that the store does in turn: its result is the answer's body.

There are no access control lists: whoever reaches the port may do everything. Nodes are made with
ZooKeeper's open list and show it; any other list is refused, rather than taken and not enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import CoordinationError, NoNodeError
from moldau.coordination.server import jute
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

_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2
_ALL_PERMISSIONS: Final = 31
_OPEN_ACL: Final = (_ALL_PERMISSIONS, "world", "anyone")
_LARGEST_ANSWER: Final = 64 << 20
"""A small request may name large nodes, and the same one again and again."""
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
    if preparing is None:
        return Prepared(partial(_refuse, Code.UNIMPLEMENTED))
    return preparing(request, reader)


def _refuse(code: Code) -> bytes:
    raise RefusedError(code)


def _watch(request: Request, reader: Reader) -> Watch | None:
    return request.watch if reader.boolean() else None


# Reading


def _exists(request: Request, reader: Reader) -> Prepared:
    path, watch = reader.string(), _watch(request, reader)

    def work() -> bytes:
        found = request.session.read_stat(path, watch)
        if found is None:
            raise NoNodeError(path)
        return jute.stat(found)

    return Prepared(work)


def _get_data(request: Request, reader: Reader) -> Prepared:
    path, watch = reader.string(), _watch(request, reader)

    def work() -> bytes:
        data, stat = request.session.read_data(path, watch)
        return jute.buffer(data) + jute.stat(stat)

    return Prepared(work)


def _get_children(request: Request, reader: Reader, *, with_stat: bool) -> Prepared:
    path, watch = reader.string(), _watch(request, reader)

    def work() -> bytes:
        names = jute.strings(request.session.read_children(path, watch))
        return names + _stat(request, path) if with_stat else names

    return Prepared(work)


def _multi_read(request: Request, reader: Reader) -> Prepared:
    """Several nodes at once; each answers for itself. There are no watches in it."""
    asked: list[tuple[int, str]] = []
    while True:
        op, is_end, _ = reader.integer(), reader.boolean(), reader.integer()
        if is_end:
            break
        if op not in (Op.GET_DATA, Op.GET_CHILDREN):
            raise MalformedError(f"operation {op} in a multi-read")
        asked.append((op, reader.string()))
        reader.boolean()

    def work() -> bytes:
        parts: list[bytes] = []
        size = 0
        for op, path in asked:
            parts.append(_read_one(request.session, op, path))
            size += len(parts[-1])
            if size > _LARGEST_ANSWER:
                raise RefusedError(Code.BAD_ARGUMENTS)
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
    path = reader.string()
    permissions, scheme, identity = _OPEN_ACL
    acl = jute.integer(permissions) + jute.string(scheme) + jute.string(identity)
    return Prepared(lambda: jute.integer(1) + acl + _stat(request, path))


def _set_acl(request: Request, reader: Reader) -> Prepared:
    path, is_open = reader.string(), _is_open(reader)
    reader.integer()  # the version of the list
    if not is_open:
        return Prepared(partial(_refuse, Code.INVALID_ACL))
    return Prepared(lambda: _stat(request, path))


def _sync(request: Request, reader: Reader) -> Prepared:
    path = reader.string()

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
    path, data = reader.string(), reader.buffer()
    is_open, flags = _is_open(reader), reader.integer()
    if not is_open:
        raise RefusedError(Code.INVALID_ACL)
    if flags & ~(_EPHEMERAL | _SEQUENCE):
        raise RefusedError(Code.UNIMPLEMENTED)  # containers, and nodes that go with time
    return _Asked(op, Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENCE)))


def _is_open(reader: Reader) -> bool:
    acl = reader.vector(lambda: (reader.integer(), reader.string(), reader.string()))
    return all(entry == _OPEN_ACL for entry in acl)


def _read_delete(op: int, reader: Reader) -> _Asked:
    return _Asked(op, Delete(reader.string(), reader.integer()))


def _read_set_data(op: int, reader: Reader) -> _Asked:
    return _Asked(op, SetData(reader.string(), reader.buffer(), reader.integer()))


def _read_check(op: int, reader: Reader) -> _Asked:
    return _Asked(op, Check(reader.string(), reader.integer()))


_CHANGES: Final[dict[int, Callable[[int, Reader], _Asked]]] = {
    Op.CREATE: _read_create,
    Op.CREATE_2: _read_create,
    Op.DELETE: _read_delete,
    Op.SET_DATA: _read_set_data,
    Op.CHECK: _read_check,
}


def _change(op: Op, request: Request, reader: Reader) -> Prepared:
    try:
        asked = _CHANGES[op](op, reader)
    except RefusedError as error:
        return Prepared(partial(_refuse, error.code))

    def work() -> bytes:
        (result,) = request.session.commit([asked.change])
        return asked.body(request, result)

    return Prepared(work, reads_only=False)


def _multi(request: Request, reader: Reader) -> Prepared:
    asked: list[_Asked] = []
    while True:
        op, is_end, _ = reader.integer(), reader.boolean(), reader.integer()
        if is_end:
            break
        read = _CHANGES.get(op)
        if read is None:
            raise MalformedError(f"operation {op} in a multi")
        try:
            asked.append(read(op, reader))
        except RefusedError as error:
            # What comes behind it cannot be read any more where flags or lists are unknown.
            return Prepared(partial(_refuse, error.code))

    def work() -> bytes:
        try:
            results = request.session.commit([one.change for one in asked])
        except CoordinationError as error:
            request.session.check_alive()
            return _failed_multi(len(asked), error)
        parts = [
            jute.integer(one.op) + b"\0" + jute.integer(Code.OK) + one.body(request, result)
            for one, result in zip(asked, results, strict=True)
        ]
        return b"".join([*parts, _END_OF_MULTI])

    return Prepared(work, reads_only=False)


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
    data, missing, children = (reader.vector(reader.string) for _ in range(3))
    if persistent and (reader.vector(reader.string) or reader.vector(reader.string)):
        return Prepared(partial(_refuse, Code.UNIMPLEMENTED))
    store, session_id = request.store, request.session.session_id

    def work() -> bytes:
        request.session.check_alive()
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

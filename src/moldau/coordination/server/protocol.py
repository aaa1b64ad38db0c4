"""The frames of ZooKeeper's protocol: codes, the handshake, headers, events.

connect:   protocol version:int last zxid seen:long timeout:int session:long password:buffer
           [read only:bool]
connected: protocol version:int timeout:int session:long password:buffer [read only:bool]
request:   xid:int op:int body
answer:    xid:int zxid:long error:int body
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.coordination import errors
from moldau.coordination.server import jute
from moldau.coordination.server.jute import Reader
from moldau.coordination.store import EventType, WatchEvent

_REPLY: Final = struct.Struct(">iqi")
_CONNECTED: Final = struct.Struct(">iiq")

EVENT_XID: Final = -1
PING_XID: Final = -2
PASSWORD_BYTES: Final = 16


class Op(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SET_WATCHES_2 = 105
    CLOSE = -11


class Code(IntEnum):
    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    QUOTA_EXCEEDED = -125


class RefusedError(errors.CoordinationError):
    """What only this protocol can ask for, and what is not done."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


_CODES: Final[dict[type[Exception], Code]] = {
    errors.NoNodeError: Code.NO_NODE,
    errors.NodeExistsError: Code.NODE_EXISTS,
    errors.BadVersionError: Code.BAD_VERSION,
    errors.NotEmptyError: Code.NOT_EMPTY,
    errors.EphemeralParentError: Code.NO_CHILDREN_FOR_EPHEMERALS,
    errors.BadPathError: Code.BAD_ARGUMENTS,
    errors.SessionExpiredError: Code.SESSION_EXPIRED,
}
_EVENTS: Final = {
    EventType.CREATED: 1,
    EventType.DELETED: 2,
    EventType.CHANGED: 3,
    EventType.CHILDREN: 4,
}
_CONNECTED_STATE: Final = 3


class ConnectRequest(NamedTuple):
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    tells_read_only: bool
    """Clients before ZooKeeper 3.4 do not, and do not expect to be told."""


def read_connect(frame: bytes) -> ConnectRequest:
    reader = Reader(frame)
    if reader.integer() != 0:
        raise jute.MalformedError("not a client of ZooKeeper's protocol, version 0")
    zxid, timeout_ms, session_id = reader.long(), reader.integer(), reader.long()
    return ConnectRequest(zxid, timeout_ms, session_id, reader.buffer(), reader.left > 0)


def connected(timeout_ms: int, session_id: int, password: bytes, *, tells_read_only: bool) -> bytes:
    """A timeout of 0 says that the session is over."""
    head = _CONNECTED.pack(0, timeout_ms, session_id)
    return head + jute.buffer(password) + (b"\0" if tells_read_only else b"")


def answer(xid: int, zxid: int, code: int, body: bytes = b"") -> bytes:
    return _REPLY.pack(xid, zxid, code) + body


def event(watched: WatchEvent) -> bytes:
    kind = jute.integer(_EVENTS[watched.type]) + jute.integer(_CONNECTED_STATE)
    return answer(EVENT_XID, -1, Code.OK, kind + jute.string(watched.path))


def code_of(error: Exception) -> Code:
    if isinstance(error, RefusedError):
        return error.code
    return _CODES.get(type(error), Code.SYSTEM_ERROR)

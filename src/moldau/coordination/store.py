"""The coordination contract: what the controller may ask of ZooKeeper, and nothing more.

A store is a tree of small nodes, each with data and a version. Every method belongs to a *session*;
ephemeral nodes vanish when their session ends. Changes are acknowledged only when they are durable,
are seen in one order by everybody, and a ``multi`` happens whole or not at all.

Watches fire once. A data watch (``get``, ``exists``) fires when the node is created, changed or
deleted; a child watch (``children``) when a child appears or goes, or the node itself is deleted.
A watch callback runs on the event loop, before any later answer is delivered to this session, and
must not block; what it does in response it schedules.

``tests/unit/coordination/contract.py`` is the executable form of this page; every implementation
(embedded, kazoo, served over the wire) runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

ANY_VERSION = -1
"""Given as the expected version, it matches every version."""


class Stat(msgspec.Struct, frozen=True, gc=False):
    """What ZooKeeper tells about a node besides its data.

    ``czxid`` and ``mzxid`` are the transactions that created and last changed it: they order
    everything in the store. A broker's epoch is the ``czxid`` of its registration.
    """

    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


class EventType(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    type: EventType
    path: str


Watch = Callable[[WatchEvent], object]


class Create(msgspec.Struct, frozen=True, gc=False):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class SetData(msgspec.Struct, frozen=True, gc=False):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Lets a multi through only if the node has this version: so a deposed controller is fenced."""

    path: str
    version: int


Op = Create | SetData | Delete | Check

OpResult = str | Stat | None
"""Of Create the path made, of SetData the new Stat, of Delete and Check nothing."""


class CoordinationStore(Protocol):
    """One session on a store. All errors are ``moldau.coordination.errors``."""

    @property
    def session_id(self) -> int:
        """Known when anything has been answered."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """For how long the store keeps a session that it does not hear of, as it has agreed to; 0
        before that is known, or where a session ends with its process.
        """
        ...

    @property
    def can_lose_changes(self) -> bool:
        """Whether damage to one disk can take acknowledged changes back."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether requests are answered now, as far as is known here; otherwise they wait."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Make a node; its parent must exist. Returns the path, with the number if ``sequence``."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]: ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Read many nodes in one go (pipelined); None where there is no node."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """A watch left on a missing node fires when it is created."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Returns names (not paths) of the children, sorted."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """All or nothing; raises the first failing operation's error, with its ``index``."""
        ...

    async def multi_many(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        """Several multis in order, pipelined; each is atomic by itself and answers for itself."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Make the node and its parents where they are missing."""
        ...

    def on_expired(self, callback: Callable[[], object]) -> None:
        """Call back once when the session is lost (not when ``close`` ends it)."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes are deleted. Safe to call twice."""
        ...

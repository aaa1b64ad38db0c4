"""The watches of one session on a remote store, and what was seen when each was left.

A ZooKeeper server forgets a client's watches when their connection breaks. They are left again on
the next connection; what the nodes looked like when they were last seen tells whether something
happened in between.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from moldau.coordination.store import EventType, Watch, WatchEvent

logger = logging.getLogger(__name__)

ABSENT = 0
"""Instead of a transaction number: there was no node."""


class _Watched:
    __slots__ = ("seen", "watches")

    def __init__(self) -> None:
        self.watches: dict[Watch, None] = {}
        self.seen = ABSENT


class SessionWatches:
    def __init__(self) -> None:
        self._data: dict[str, _Watched] = {}
        self._children: dict[str, _Watched] = {}

    def add_data(self, path: str, watch: Watch, mzxid: int) -> None:
        _add(self._data, path, watch, mzxid)

    def add_children(self, path: str, watch: Watch, pzxid: int) -> None:
        _add(self._children, path, watch, pzxid)

    def data_paths(self) -> Iterator[str]:
        return iter(tuple(self._data))

    def children_paths(self) -> Iterator[str]:
        return iter(tuple(self._children))

    def clear(self) -> None:
        self._data.clear()
        self._children.clear()

    def compare_data(self, path: str, mzxid: int) -> None:
        """A node with a data watch was looked at again: if it is not as it was, the watch fires."""
        watched = self._data.get(path)
        if watched is None or watched.seen == mzxid:
            return
        if mzxid == ABSENT:
            self.fire(EventType.DELETED, path)
        else:
            self.fire(EventType.CREATED if watched.seen == ABSENT else EventType.CHANGED, path)

    def compare_children(self, path: str, pzxid: int) -> None:
        watched = self._children.get(path)
        if watched is not None and watched.seen != pzxid:
            self.fire(EventType.DELETED if pzxid == ABSENT else EventType.CHILDREN, path)

    def fire(self, kind: EventType, path: str) -> None:
        """Call whom an event concerns, each once; they are forgotten first."""
        tables = {
            EventType.CHILDREN: (self._children,),
            EventType.DELETED: (self._data, self._children),
        }.get(kind, (self._data,))
        watches: dict[Watch, None] = {}
        for table in tables:
            if (watched := table.pop(path, None)) is not None:
                watches |= watched.watches
        for watch in watches:
            try:
                watch(WatchEvent(kind, path))
            except Exception:
                # A watcher's fault must not keep the others from hearing of it.
                logger.exception("A watch on %s failed", path)


def _add(table: dict[str, _Watched], path: str, watch: Watch, seen: int) -> None:
    watched = table.setdefault(path, _Watched())
    watched.watches[watch] = None
    watched.seen = seen

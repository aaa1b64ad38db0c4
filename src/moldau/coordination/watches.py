"""Who waits for what: one-shot watches by path, pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from moldau.coordination.store import EventType, Watch, WatchEvent
from moldau.coordination.tree import CREATE, DELETE, SET, Txn, parent_of

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    session_id: int
    watch: Watch


class _Kind:
    """Watches of one kind, by path, and which paths each session watches."""

    __slots__ = ("_by_path", "_by_session")

    def __init__(self) -> None:
        self._by_path: dict[str, dict[_Waiting, None]] = {}
        self._by_session: dict[int, set[str]] = {}

    def __len__(self) -> int:
        return len(self._by_path)

    def add(self, path: str, waiting: _Waiting) -> None:
        self._by_path.setdefault(path, {})[waiting] = None
        self._by_session.setdefault(waiting.session_id, set()).add(path)

    def take(self, path: str) -> dict[_Waiting, None]:
        """Returns who waits for this path; they are forgotten."""
        taken = self._by_path.pop(path, {})
        for session_id in {waiting.session_id for waiting in taken}:
            paths = self._by_session[session_id]
            paths.discard(path)
            if not paths:
                del self._by_session[session_id]
        return taken

    def drop_session(self, session_id: int) -> None:
        for path in self._by_session.pop(session_id, ()):
            waiting = self._by_path[path]
            for one in [one for one in waiting if one.session_id == session_id]:
                del waiting[one]
            if not waiting:
                del self._by_path[path]

    def count_of(self, session_id: int) -> int:
        return len(self._by_session.get(session_id, ()))


class WatchTable:
    """What one session costs, its end included, depends on its own watches alone."""

    def __init__(self) -> None:
        self._data = _Kind()
        self._children = _Kind()

    def add_data_watch(self, path: str, session_id: int, watch: Watch) -> None:
        self._data.add(path, _Waiting(session_id, watch))

    def add_child_watch(self, path: str, session_id: int, watch: Watch) -> None:
        self._children.add(path, _Waiting(session_id, watch))

    def drop_session(self, session_id: int) -> None:
        self._data.drop_session(session_id)
        self._children.drop_session(session_id)

    def count_of(self, session_id: int) -> int:
        """Returns how many nodes a session watches; one twice if for its children, too."""
        return self._data.count_of(session_id) + self._children.count_of(session_id)

    def fire(self, txn: Txn) -> None:
        """Call whom this transaction concerns, in its order; each watch is forgotten first."""
        if not self._data and not self._children:
            return
        for change in txn.changes:
            kind, path = change.kind, change.path
            if kind == SET:
                _call(self._data.take(path), EventType.CHANGED, path)
            elif kind == CREATE:
                _call(self._data.take(path), EventType.CREATED, path)
                self._fire_children(path)
            elif kind == DELETE:
                # One callback that watches both data and children hears of a deletion once.
                waiting = self._data.take(path) | self._children.take(path)
                _call(waiting, EventType.DELETED, path)
                self._fire_children(path)

    def _fire_children(self, path: str) -> None:
        if self._children:
            parent = parent_of(path)
            _call(self._children.take(parent), EventType.CHILDREN, parent)


def _call(waiting: Iterable[_Waiting], kind: EventType, path: str) -> None:
    for one in waiting:
        try:
            one.watch(WatchEvent(kind, path))
        except Exception:
            # A watcher's fault must not keep the others, or the answer, from being delivered.
            logger.exception("A watch on %s failed", path)

"""Who waits for what: one-shot watches by path, pure."""

from __future__ import annotations

import logging
from typing import NamedTuple

from moldau.coordination.store import EventType, Watch, WatchEvent
from moldau.coordination.tree import CREATE, DELETE, SET, Txn, parent_of

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    session_id: int
    watch: Watch


class WatchTable:
    def __init__(self) -> None:
        self._data: dict[str, list[_Waiting]] = {}
        self._children: dict[str, list[_Waiting]] = {}

    def add_data_watch(self, path: str, session_id: int, watch: Watch) -> None:
        _add(self._data, path, _Waiting(session_id, watch))

    def add_child_watch(self, path: str, session_id: int, watch: Watch) -> None:
        _add(self._children, path, _Waiting(session_id, watch))

    def drop_session(self, session_id: int) -> None:
        for table in (self._data, self._children):
            for path in list(table):
                left = [waiting for waiting in table[path] if waiting.session_id != session_id]
                if left:
                    table[path] = left
                else:
                    del table[path]

    def fire(self, txn: Txn) -> None:
        """Call whom this transaction concerns, in its order; each watch is forgotten first."""
        if not self._data and not self._children:
            return
        for change in txn.changes:
            kind, path = change.kind, change.path
            if kind == SET:
                _call(self._data.pop(path, []), EventType.CHANGED, path)
            elif kind == CREATE:
                _call(self._data.pop(path, []), EventType.CREATED, path)
                self._fire_children(path)
            elif kind == DELETE:
                waiting = self._data.pop(path, [])
                # One callback that watches both data and children hears of a deletion once.
                waiting += [one for one in self._children.pop(path, []) if one not in waiting]
                _call(waiting, EventType.DELETED, path)
                self._fire_children(path)

    def _fire_children(self, path: str) -> None:
        if self._children:
            parent = parent_of(path)
            _call(self._children.pop(parent, []), EventType.CHILDREN, parent)


def _add(table: dict[str, list[_Waiting]], path: str, waiting: _Waiting) -> None:
    watchers = table.setdefault(path, [])
    if waiting not in watchers:
        watchers.append(waiting)


def _call(waiting: list[_Waiting], kind: EventType, path: str) -> None:
    for one in waiting:
        try:
            one.watch(WatchEvent(kind, path))
        except Exception:
            # A watcher's fault must not keep the others, or the answer, from being delivered.
            logger.exception("A watch on %s failed", path)

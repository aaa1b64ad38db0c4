"""A session on the embedded store: what it asks for is work that the store does in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from moldau.coordination.errors import (
    CoordinationError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.sessions import Session
from moldau.coordination.single_changes import SingleChanges
from moldau.coordination.store import Check, Op, OpResult, Stat, Watch
from moldau.coordination.tree import check_path

if TYPE_CHECKING:
    from moldau.coordination.embedded import EmbeddedStore


class EmbeddedSession(SingleChanges):
    """A session; ``kept`` is what the journal has of it, None if it ends with the process."""

    def __init__(self, store: EmbeddedStore, session_id: int, kept: Session | None = None) -> None:
        self.kept = kept
        self._store = store
        self._session_id = session_id
        self._ended = False
        self._listeners: list[Callable[[], object]] = []

    @property
    def can_lose_changes(self) -> bool:
        """Its journal is on one disk."""
        return True

    @property
    def is_connected(self) -> bool:
        return self._store.is_usable and not self._ended

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return 0 if self.kept is None else self.kept.timeout_ms

    @property
    def has_ended(self) -> bool:
        return self._ended

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._store.run(partial(self.read_data, path, watch), reads_only=True)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        tree = self._store.tree

        def read() -> list[tuple[bytes, Stat] | None]:
            self.check_alive()
            stat = tree.stat
            found = map(tree.nodes.get, paths)
            return [(node.data, stat(node)) if node is not None else None for node in found]

        return await self._store.run(read, reads_only=True)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._store.run(partial(self.read_stat, path, watch), reads_only=True)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._store.run(partial(self.read_children, path, watch), reads_only=True)

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        only_checks = all(isinstance(op, Check) for op in ops)
        return await self._store.run(partial(self.commit, ops), reads_only=only_checks)

    async def multi_many(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        def write() -> list[list[OpResult] | Exception]:
            self.check_alive()
            answers: list[list[OpResult] | Exception] = []
            for ops in batches:
                try:
                    answers.append(self.commit(ops))
                except CoordinationError as error:
                    answers.append(error)
            return answers

        return await self._store.run(write)

    def on_expired(self, callback: Callable[[], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        self._listeners.clear()
        await self.end()

    # Work, which the store runs in turn

    def read_data(self, path: str, watch: Watch | None) -> tuple[bytes, Stat]:
        self.check_alive()
        store = self._store
        node = store.tree.node(path)
        if watch is not None:
            store.once_durable(partial(store.watches.add_data_watch, path, self._session_id, watch))
        return node.data, store.tree.stat(node)

    def read_stat(self, path: str, watch: Watch | None) -> Stat | None:
        self.check_alive()
        check_path(path)
        store = self._store
        node = store.tree.nodes.get(path)
        if watch is not None:
            store.once_durable(partial(store.watches.add_data_watch, path, self._session_id, watch))
        return store.tree.stat(node) if node is not None else None

    def read_children(self, path: str, watch: Watch | None) -> list[str]:
        self.check_alive()
        store = self._store
        names = store.tree.children(path)
        if watch is not None:
            store.once_durable(
                partial(store.watches.add_child_watch, path, self._session_id, watch)
            )
        return names

    def commit(self, ops: Sequence[Op]) -> list[OpResult]:
        self.check_alive()
        return self._store.commit(ops, self._session_id)

    def finish(self) -> None:
        """End the session: its ephemeral nodes go."""
        if not self._ended:
            self._ended = True
            self._store.once_durable(partial(self._store.forget_session, self._session_id))
            self._store.end_session(self._session_id)

    def check_alive(self) -> None:
        if self._ended:
            raise SessionExpiredError(f"session {self._session_id:#x} is over")

    # The end

    async def end(self) -> None:
        store = self._store
        if self._ended or not store.is_usable:
            self._ended = True
            return
        try:
            await store.run(self.finish)
        except StoreUnavailableError:
            self.not_ended()
            raise

    def not_ended(self) -> None:
        """The end could not be written: the ephemeral nodes are there, so the session is too, and
        can be ended later, unless the store has failed for good.
        """
        self._ended = not self._store.is_usable

    def notify_expired(self) -> None:
        self._ended = True
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

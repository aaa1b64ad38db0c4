"""The embedded store: the coordination contract inside this process, journaled to a directory.

Requests of all sessions are executed in the order they came. Those that arrive while a sync is
running form the next group: they are applied to the tree together, their transactions are written
as one frame and synced once (in a thread: the loop is never blocked), and only then are answers and
watch events delivered. A read therefore never shows what a crash could still take back.
If the journal refuses a group (disk full, no descriptor left), the tree takes it back and the
callers are told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from moldau.coordination import journal, loading
from moldau.coordination.errors import (
    CoordinationError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.single_changes import SingleChanges
from moldau.coordination.storage import Storage
from moldau.coordination.store import (
    Check,
    Delete,
    Op,
    OpResult,
    Stat,
    Watch,
)
from moldau.coordination.tree import Committed, Tree, Txn, check_path
from moldau.coordination.watches import WatchTable
from moldau.machine import RunInThread
from moldau.machine.errors import is_full, is_passing

logger = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_AFTER_BYTES = 8 * 1024 * 1024
"""A journal longer than this, and than twice the last snapshot, is replaced by a new snapshot."""


class _Request:
    """One call of a session, waiting for its turn and then for the sync."""

    __slots__ = ("answer", "effects", "error", "future", "work")

    def __init__(self, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.answer: Any = None
        self.error: Exception | None = None
        self.effects: list[Callable[[], object]] = []

    def deliver(self) -> None:
        for effect in self.effects:
            effect()
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class EmbeddedStore:
    """Opens the directory; hands out sessions."""

    is_shared = False

    def __init__(
        self,
        storage: Storage,
        loaded: loading.Found,
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
        snapshot_after: int,
    ) -> None:
        self._storage = storage
        self._tree: Tree = loaded.tree
        self._journal_size = loaded.journal_size
        self._snapshot_size = loaded.snapshot_size
        self._no_snapshot_before = 0
        """Size of the journal from which on a snapshot that failed is tried again."""
        self._has_leavings = bool(loaded.unwritten)
        """Whether something may stand behind the journal's end that was refused."""
        self._run_in_thread = run_in_thread
        self._now_ms = now_ms
        self._snapshot_after = snapshot_after
        self._watches = WatchTable()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._next_session = now_ms() << 16
        self._queue: list[_Request] = []
        self._committer: asyncio.Task[None] | None = None
        self._group: list[Committed] = []
        self._executing: _Request | None = None
        self._unwritten: list[Txn] = loaded.unwritten
        """What happened at the start, to be written with the first group."""
        self._failure: StoreUnavailableError | None = None
        self._closed = False
        if self._tree.has_ephemerals:
            self._unwritten.append(self._tree.restart(now_ms()))

    @classmethod
    async def open(
        cls,
        storage: Storage,
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
        snapshot_after: int = SNAPSHOT_AFTER_BYTES,
    ) -> EmbeddedStore:
        def load() -> loading.Found:
            storage.lock()
            try:
                loaded = loading.load(storage)
                loading.open_journal(storage, loaded, now_ms())
                storage.prepare(journal.JOURNAL)
                _reserve(storage, loaded.journal_size, loaded.snapshot_size)
                return loaded
            except BaseException:
                storage.close()
                raise

        loaded = await run_in_thread(load)
        _report(loaded)
        return cls(storage, loaded, run_in_thread, now_ms, snapshot_after)

    def session(self) -> EmbeddedSession:
        """Returns a new session; satisfies ``CoordinationStore``."""
        self._check_usable()
        self._next_session += 1
        session = EmbeddedSession(self, self._next_session)
        self._sessions[session.session_id] = session
        return session

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    async def expire(self, session: EmbeddedSession) -> None:
        """End a session from outside, as a missed heartbeat would: its owner is told afterwards."""
        await session._end()
        session._notify_expired()

    async def close(self) -> None:
        """End all sessions, write a snapshot, release the directory. Safe to call twice."""
        if self._closed:
            return
        for session in list(self._sessions.values()):
            try:
                await session.close()
            except StoreUnavailableError:
                break
        self._closed = True
        while self._committer is not None:
            await asyncio.wait([self._committer])
        try:
            if self._failure is None and self._journal_size > len(journal.encode_journal_header(0)):
                await self._write_snapshot()
        except OSError as error:
            # The journal holds everything; the snapshot would only have made the next start faster.
            logger.warning("Could not write the coordination snapshot: %s", error)
        finally:
            await self._run_in_thread(self._storage.close)

    # Execution

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise SessionExpiredError("the coordination store is closed")

    async def _run(self, work: Callable[[], T], *, reads_only: bool = False) -> T:
        """Execute in turn; answer when what it did, and what it saw, is durable."""
        self._check_usable()
        if reads_only and self._committer is None:
            return work()
        loop = asyncio.get_running_loop()
        request = _Request(work, loop.create_future())
        self._queue.append(request)
        if self._committer is None:
            self._committer = loop.create_task(self._commit_groups())
        answer: T = await request.future
        return answer

    async def _commit_groups(self) -> None:
        try:
            while self._queue:
                await self._commit_group()
        finally:
            self._committer = None

    async def _commit_group(self) -> None:
        requests, self._queue = self._queue, []
        self._group = []
        for request in requests:
            self._execute(request)
        txns = [committed.txn for committed in self._group if committed.txn is not None]
        if txns and self._failure is None:
            try:
                await self._write(txns)
            except OSError as error:
                await self._recover_from(error, requests)
        for request in requests:
            request.deliver()
        if (
            self._failure is None
            and self._journal_size > self._snapshot_after
            and self._journal_size > 2 * self._snapshot_size
            and self._journal_size > self._no_snapshot_before
        ):
            await self._try_snapshot()

    def _execute(self, request: _Request) -> None:
        if self._failure is not None:
            request.error = self._failure
            return
        self._executing = request
        try:
            request.answer = request.work()
        except Exception as error:
            request.error = error
        finally:
            self._executing = None

    def _once_durable(self, effect: Callable[[], object]) -> None:
        """Watches are left and fire in the order of the requests, and only for what is durable."""
        if self._executing is not None:
            self._executing.effects.append(effect)
        else:
            effect()

    async def _write(self, txns: list[Txn]) -> None:
        frame = journal.encode_frame([*self._unwritten, *txns])
        storage, size, snapshot_size = self._storage, self._journal_size, self._snapshot_size
        has_leavings = self._has_leavings

        def write() -> None:
            storage.append(journal.JOURNAL, frame, size)
            if has_leavings:
                # Not before: they may be all that tells of a loss until the frame is there.
                storage.blank(journal.JOURNAL, size + len(frame))
            _reserve(storage, size + len(frame), snapshot_size)

        await self._run_in_thread(write)
        self._journal_size += len(frame)
        self._unwritten.clear()
        self._has_leavings = False

    async def _recover_from(self, error: OSError, requests: list[_Request]) -> None:
        """Take the group back. A full disk, or a process without descriptors, is survived; after
        any other error the disk's state is unknown (a failed sync may have dropped pages), so the
        store stops.
        """
        self._tree.rollback(self._group)
        message = f"cannot write the coordination journal: {error}"
        for request in requests:
            request.effects.clear()
            request.error = StoreUnavailableError(message)
        if is_full(error) or is_passing(error):
            logger.warning("A change was refused: %s", message)
            self._has_leavings = True
        else:
            self._fail(message)

    def _fail(self, message: str) -> None:
        logger.error("The coordination store stops: %s", message)
        self._failure = StoreUnavailableError(message)
        loop = asyncio.get_running_loop()
        for session in list(self._sessions.values()):
            loop.call_soon(session._notify_expired)

    async def _try_snapshot(self) -> None:
        """Without room for one the journal goes on."""
        try:
            await self._write_snapshot()
        except OSError as error:
            if not is_full(error) and not is_passing(error):
                self._fail(f"cannot replace the coordination journal: {error}")
                return
            logger.warning("Could not write the coordination snapshot for now: %s", error)
            self._no_snapshot_before = self._journal_size + loading.SMALLEST_RESERVE // 4

    async def _write_snapshot(self) -> None:
        storage, tree = self._storage, self._tree

        def write() -> tuple[int, int]:
            return loading.write_snapshot(storage, tree)

        self._snapshot_size, self._journal_size = await self._run_in_thread(write)
        self._unwritten.clear()
        self._has_leavings = False

    # What sessions ask for (runs in turn, on the loop)

    def _commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        committed = self._tree.commit(ops, session_id, self._now_ms())
        self._group.append(committed)
        if committed.txn is not None:
            self._once_durable(partial(self._watches.fire, committed.txn))
        return committed.results


class EmbeddedSession(SingleChanges):
    """A session on the embedded store."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self._store = store
        self._session_id = session_id
        self._ended = False
        self._listeners: list[Callable[[], object]] = []

    @property
    def can_lose_changes(self) -> bool:
        """Its journal is on one disk."""
        return True

    @property
    def session_id(self) -> int:
        return self._session_id

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        tree = self._store._tree

        def read() -> tuple[bytes, Stat]:
            self._check_alive()
            node = tree.node(path)
            if watch is not None:
                self._store._once_durable(
                    partial(self._store._watches.add_data_watch, path, self._session_id, watch)
                )
            return node.data, tree.stat(node)

        return await self._store._run(read, reads_only=True)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        tree = self._store._tree

        def read() -> list[tuple[bytes, Stat] | None]:
            self._check_alive()
            stat = tree.stat
            found = map(tree.nodes.get, paths)
            return [(node.data, stat(node)) if node is not None else None for node in found]

        return await self._store._run(read, reads_only=True)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        tree = self._store._tree

        def read() -> Stat | None:
            self._check_alive()
            check_path(path)
            node = tree.nodes.get(path)
            if watch is not None:
                self._store._once_durable(
                    partial(self._store._watches.add_data_watch, path, self._session_id, watch)
                )
            return tree.stat(node) if node is not None else None

        return await self._store._run(read, reads_only=True)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def read() -> list[str]:
            self._check_alive()
            names = self._store._tree.children(path)
            if watch is not None:
                self._store._once_durable(
                    partial(self._store._watches.add_child_watch, path, self._session_id, watch)
                )
            return names

        return await self._store._run(read, reads_only=True)

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        def write() -> list[OpResult]:
            self._check_alive()
            return self._store._commit(ops, self._session_id)

        only_checks = all(isinstance(op, Check) for op in ops)
        return await self._store._run(write, reads_only=only_checks)

    async def multi_many(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        def write() -> list[list[OpResult] | Exception]:
            self._check_alive()
            answers: list[list[OpResult] | Exception] = []
            for ops in batches:
                try:
                    answers.append(self._store._commit(ops, self._session_id))
                except CoordinationError as error:
                    answers.append(error)
            return answers

        return await self._store._run(write)

    def on_expired(self, callback: Callable[[], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        self._listeners.clear()
        await self._end()

    def _check_alive(self) -> None:
        if self._ended:
            raise SessionExpiredError(f"session {self._session_id:#x} is over")

    async def _end(self) -> None:
        store = self._store
        if self._ended or store._closed or store._failure is not None:
            self._ended = True
            return

        def end() -> None:
            if self._ended:
                return
            ops = [Delete(path) for path in store._tree.ephemerals_of(self._session_id)]
            self._ended = True
            store._once_durable(self._forget)
            store._commit(ops, self._session_id)

        try:
            await store._run(end)
        except StoreUnavailableError:
            # The ephemeral nodes are still there, so the session is too: it can be ended later.
            self._ended = store._failure is not None
            raise

    def _forget(self) -> None:
        self._store._watches.drop_session(self._session_id)
        self._store._sessions.pop(self._session_id, None)

    def _notify_expired(self) -> None:
        self._ended = True
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


def _reserve(storage: Storage, journal_size: int, snapshot_size: int) -> None:
    """Keep room for the journal; a disk that has none now may have some with the next change."""
    room = loading.reserve_for(snapshot_size)
    try:
        if storage.size(journal.JOURNAL) < journal_size + room // 2:
            storage.reserve(journal.JOURNAL, journal_size + room)
    except OSError as error:
        if not is_full(error) and not is_passing(error):
            raise


def _report(loaded: loading.Found) -> None:
    for problem in loaded.problems:
        logger.error(
            "The coordination store is damaged, and was put together from the previous snapshot "
            "and the journals, with nothing missing: %s",
            problem,
        )
    if loaded.torn_bytes:
        logger.warning(
            "Cut %d bytes off the coordination journal: a change was being written when the "
            "process ended, or the end of the journal is damaged; the log directories are compared "
            "with the store",
            loaded.torn_bytes,
        )
    if loaded.lost_journal:
        logger.error(
            "The coordination journal is missing: what changed since the last snapshot is taken "
            "from the log directories, as far as it is there"
        )

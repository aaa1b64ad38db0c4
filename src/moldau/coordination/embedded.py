"""The embedded store: the coordination contract inside this process, journaled to a directory.

Requests of all sessions are executed in the order they came. Those that arrive while a sync is
running form the next group: they are applied to the tree together, their transactions are written
as one frame and synced once (in a thread: the loop is never blocked), and only then are answers and
watch events delivered. A read therefore never shows what a crash could still take back.
If the journal refuses a group (disk full, no descriptor left), the tree takes it back and the
callers are told.

For a broker that has the store in its own process, sessions end with the process. A store that is
served to others ``keeps_sessions``: those are in the journal, and go on after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from moldau.coordination import journal, loading
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import (
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.sessions import Session
from moldau.coordination.storage import Storage
from moldau.coordination.store import Delete, Op, OpResult
from moldau.coordination.tree import Committed, Tree, Txn
from moldau.coordination.watches import WatchTable
from moldau.machine import RunInThread
from moldau.machine.errors import is_full, is_passing

logger = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_AFTER_BYTES = 8 * 1024 * 1024
"""A journal longer than this, and than twice the last snapshot, is replaced by a new snapshot."""

SLICE_BYTES = 64 * 1024
"""Requests of so many bytes are executed, or answered, before everything else has a turn."""
GROUP_BYTES = 4 * 1024 * 1024
"""Requests of so many bytes, and one, are written together."""

Work: TypeAlias = Callable[[], T]
"""What a session asks for: reads and changes the tree, in turn."""
Answered: TypeAlias = Callable[[Any, Exception | None, int], object]
"""Called with the answer, or what went wrong, and the last transaction that the request saw."""


class _Request:
    """One call of a session, waiting for its turn and then for the sync."""

    __slots__ = ("answer", "answered", "effects", "error", "weight", "work", "zxid")

    def __init__(self, work: Work[Any], answered: Answered, weight: int = 0) -> None:
        self.work = work
        self.weight = weight
        self.answered = answered
        self.answer: Any = None
        self.error: Exception | None = None
        self.zxid = 0
        self.effects: list[Callable[[], object]] = []

    def deliver(self) -> None:
        for effect in self.effects:
            effect()
        self.answered(self.answer, self.error, self.zxid)


class EmbeddedStore:
    """Opens the directory; hands out sessions."""

    def __init__(
        self,
        storage: Storage,
        loaded: loading.Found,
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
        snapshot_after: int,
        *,
        keeps_sessions: bool = False,
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
        self.watches = WatchTable()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._next_session = max(now_ms() << 16, *self._tree.sessions, 0)
        self._queue: list[_Request] = []
        self._committer: asyncio.Task[None] | None = None
        self._group: list[Committed] = []
        self._executing: _Request | None = None
        self._unwritten: list[Txn] = loaded.unwritten
        """What happened at the start, to be written with the first group."""
        self._failure: StoreUnavailableError | None = None
        self.on_failure: Callable[[], object] = _nothing
        """Called when the store stops because its disk has failed."""
        self._closed = False
        if not keeps_sessions:
            if self._tree.has_sessions:
                self._unwritten.append(self._tree.restart(now_ms()))
        elif orphans := self._tree.orphans():
            # They are of a process that had the store to itself.
            dropped = self._tree.commit([Delete(path) for path in orphans], 0, now_ms())
            assert dropped.txn is not None
            self._unwritten.append(dropped.txn)

    @classmethod
    async def open(
        cls,
        storage: Storage,
        run_in_thread: RunInThread,
        now_ms: Callable[[], int],
        snapshot_after: int = SNAPSHOT_AFTER_BYTES,
        *,
        keeps_sessions: bool = False,
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
        _report(loaded, is_shared=keeps_sessions)
        return cls(
            storage, loaded, run_in_thread, now_ms, snapshot_after, keeps_sessions=keeps_sessions
        )

    def session(self) -> EmbeddedSession:
        """Returns a new session, which ends with the process; satisfies ``CoordinationStore``."""
        self._check_usable()
        return self._begin(self.new_session_id(), None)

    def new_session_id(self) -> int:
        self._next_session += 1
        return self._next_session

    def kept_sessions(self) -> list[Session]:
        """Returns those that are in the journal, in the order of their ids."""
        return [self._tree.sessions[session_id] for session_id in sorted(self._tree.sessions)]

    def adopt(self, session: Session) -> EmbeddedSession:
        """Go on with a session that is in the journal."""
        return self._begin(session.id, session)

    async def open_session(self, session: Session) -> EmbeddedSession:
        """Begin a session that is to be kept."""

        def open_() -> None:
            self._taken(self._tree.open_session(session, self._now_ms()))

        await self.run(open_)
        return self._begin(session.id, session)

    def _begin(self, session_id: int, kept: Session | None) -> EmbeddedSession:
        session = EmbeddedSession(self, session_id, kept)
        self._sessions[session_id] = session
        return session

    @property
    def tree(self) -> Tree:
        """For work that runs in turn."""
        return self._tree

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    @property
    def is_usable(self) -> bool:
        return not self._closed and self._failure is None

    async def expire(self, session: EmbeddedSession) -> None:
        """End a session from outside, as a missed heartbeat would: its owner is told afterwards."""
        await session.end()
        session.notify_expired()

    async def close(self) -> None:
        """End all sessions that are not kept, write a snapshot, release the directory. Safe to
        call twice.
        """
        if self._closed:
            return
        for session in list(self._sessions.values()):
            if session.kept is not None:
                continue
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

    async def run(self, work: Work[T], *, reads_only: bool = False) -> T:
        """Execute in turn; answer when what it did, and what it saw, is durable."""
        self._check_usable()
        if reads_only and self._committer is None:
            return work()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answered(answer: Any, error: Exception | None, _zxid: int) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        self._enqueue(_Request(work, answered))
        return await future

    def submit(
        self, work: Work[Any], answered: Answered, *, reads_only: bool = False, weight: int = 0
    ) -> None:
        """As ``run``, but calls back: answers and watch events of all are told in one order.

        ``weight`` is the size in bytes of what came from elsewhere: work is done in slices.
        """
        request = _Request(work, answered, weight)
        if self._failure is not None or self._closed:
            request.error = self._failure or SessionExpiredError("the coordination store is closed")
            request.deliver()
        elif reads_only and self._committer is None:
            self._execute(request)
            request.deliver()
        else:
            self._enqueue(request)

    def _enqueue(self, request: _Request) -> None:
        self._queue.append(request)
        if self._committer is None:
            self._committer = asyncio.get_running_loop().create_task(self._commit_groups())

    async def _commit_groups(self) -> None:
        try:
            while self._queue:
                await self._commit_group()
        finally:
            self._committer = None

    async def _commit_group(self) -> None:
        requests = self._next_group()
        self._group = []
        async for request in _in_slices(requests):
            self._execute(request)
        txns = [committed.txn for committed in self._group if committed.txn is not None]
        if txns and self._failure is None:
            try:
                await self._write(txns)
            except OSError as error:
                await self._recover_from(error, requests)
        async for request in _in_slices(requests):
            request.deliver()
        if (
            self._failure is None
            and self._journal_size > self._snapshot_after
            and self._journal_size > 2 * self._snapshot_size
            and self._journal_size > self._no_snapshot_before
        ):
            await self._try_snapshot()

    def _next_group(self) -> list[_Request]:
        weight = count = 0
        while count < len(self._queue) and weight < GROUP_BYTES:
            weight += self._queue[count].weight
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken

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
            request.zxid = self._tree.zxid

    def once_durable(self, effect: Callable[[], object]) -> None:
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
            request.zxid = self._tree.zxid
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
            if session.kept is None:
                loop.call_soon(session.notify_expired)
        loop.call_soon(self.on_failure)

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

    def commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        return self._taken(self._tree.commit(ops, session_id, self._now_ms()))

    def end_session(self, session_id: int) -> None:
        """Delete what the session leaves behind."""
        self._taken(self._tree.close_session(session_id, self._now_ms()))

    def _taken(self, committed: Committed) -> list[OpResult]:
        self._group.append(committed)
        if committed.txn is not None:
            self.once_durable(partial(self.watches.fire, committed.txn))
        return committed.results

    def forget_session(self, session_id: int) -> None:
        self.watches.drop_session(session_id)
        self._sessions.pop(session_id, None)


async def _in_slices(requests: list[_Request]) -> AsyncIterator[_Request]:
    """Yields all of them, with a turn for everybody else on the loop where there are many bytes."""
    weight = 0
    for request in requests:
        yield request
        weight += request.weight
        if weight >= SLICE_BYTES:
            weight = 0
            await asyncio.sleep(0)


def _nothing() -> None:
    return


def _reserve(storage: Storage, journal_size: int, snapshot_size: int) -> None:
    """Keep room for the journal; a disk that has none now may have some with the next change."""
    room = loading.reserve_for(snapshot_size)
    try:
        if storage.size(journal.JOURNAL) < journal_size + room // 2:
            storage.reserve(journal.JOURNAL, journal_size + room)
    except OSError as error:
        if not is_full(error) and not is_passing(error):
            raise


def _report(loaded: loading.Found, *, is_shared: bool) -> None:
    for problem in loaded.problems:
        logger.error(
            "The coordination store is damaged, and was put together from the previous snapshot "
            "and the journals, with nothing missing: %s",
            problem,
        )
    if loaded.torn_bytes:
        logger.warning(
            "Cut %d bytes off the coordination journal: a change was being written when the "
            "process ended, or the end of the journal is damaged%s",
            loaded.torn_bytes,
            "" if is_shared else "; the log directories are compared with the store",
        )
    if loaded.lost_journal:
        logger.error(
            "The coordination journal is missing%s",
            ", with what changed since the last snapshot"
            if is_shared
            else ": what changed since the last snapshot is taken from the log directories, as far "
            "as it is there",
        )

"""The coordination contract on a ZooKeeper ensemble, through kazoo.

One object is one session. While the connection is broken, requests wait for the next one; the
session, its ephemeral nodes and its watches outlive the break, up to the session timeout. A read
under way when the connection breaks is simply made again. A change is not: nobody can know whether
the server made it (``ConnectionLostError``). When the session is over it is over for good, unlike
kazoo's clients, which would go on with another: whoever had ephemeral nodes must hear of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from socket import getaddrinfo
from typing import Any

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL

from moldau.config.options.coordination import CoordinationOptions
from moldau.coordination.errors import (
    CoordinationError,
    EnsembleError,
    NoNodeError,
    SessionExpiredError,
)
from moldau.coordination.kazoo_answers import BROKEN, EVENTS, lost, results, stat
from moldau.coordination.kazoo_handler import LoopHandler
from moldau.coordination.kazoo_reads import READS_AT_ONCE, MultiRead, ReadFailedError
from moldau.coordination.session_watches import ABSENT, SessionWatches
from moldau.coordination.single_changes import SingleChanges
from moldau.coordination.store import (
    Check,
    Create,
    Delete,
    EventType,
    Op,
    OpResult,
    SetData,
    Stat,
    Watch,
)
from moldau.coordination.tree import check_path

logger = logging.getLogger(__name__)
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)  # it tells of every try; what matters is told here

SESSION_TIMEOUT_MS = CoordinationOptions.zookeeper_session_timeout_ms.default
"""The default of Kafka's ``zookeeper.session.timeout.ms``."""
IN_FLIGHT = 128
"""How many requests may be under way. Kazoo wakes its thread with a byte in a socket pair for each;
some 270 fill it, and the one after them would block the event loop."""
TRIES_IN_A_SESSION = 3
"""How many connections that stay silent a session can survive, and one."""
RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
FAREWELL_S = 2.0
"""For the end of a session to be acknowledged; a server that says nothing notices it later."""
LOOK_UP_S = 1.0
"""For finding out whether the names of servers are known, when none answers."""
SILENCE_S = 2.0
"""After so long without a first connection the log says that one is waited for."""


class ZooKeeperStore(SingleChanges):
    """A session; satisfies ``CoordinationStore``. Made by ``begin`` or ``open``."""

    def __init__(
        self, connect: str, session_timeout_ms: int, credentials: str | None, *, own_acl: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        patience_s = session_timeout_ms / 1000 / TRIES_IN_A_SESSION
        hosts = connect.partition("/")[0].count(",") + 1
        self._client = KazooClient(
            connect,
            timeout=session_timeout_ms / 1000,
            handler=LoopHandler(self._loop, patience_s, patience_s / hosts),
            connection_retry=dict(RECONNECT),
            logger=_kazoo_logger,
            auth_data=[("digest", credentials)] if credentials else None,
            default_acl=CREATOR_ALL_ACL if own_acl else None,
        )
        self._client.add_listener(self._tell_state)
        self._watches = SessionWatches()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._connected = asyncio.Event()
        self._connection = 0
        """Counts the connections of the session."""
        self._ended = False
        self._listeners: list[Callable[[], object]] = []
        self._rearming: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._session_id = 0
        self._session_timeout_ms = 0
        self._note_timeout()

    def _note_timeout(self) -> None:
        """Take down what each connection agrees on: kazoo tells nobody."""
        connection = self._client._connection
        connect = connection._connect

        def connecting(*address: Any) -> tuple[float, float]:
            read_timeout, connect_timeout = connect(*address)
            self._session_timeout_ms = round(read_timeout * 3 / 2)
            return read_timeout, connect_timeout

        connection._connect = connecting

    @classmethod
    def begin(
        cls,
        connect: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        credentials: str | None = None,
        own_acl: bool = False,
    ) -> ZooKeeperStore:
        """Returns a session that is on its way; requests wait until there is a connection.

        ``connect`` is ``host:port,host:port/chroot``, as Kafka's ``zookeeper.connect``;
        ``credentials`` are ``user:password`` of ZooKeeper's digest scheme. With ``own_acl`` nobody
        else may read or change what is made.
        """
        store = cls(connect, session_timeout_ms, credentials, own_acl=own_acl)
        store._client.start_async()
        return store

    @classmethod
    async def open(
        cls,
        connect: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connection_timeout_ms: int | None = None,
        credentials: str | None = None,
        own_acl: bool = False,
    ) -> ZooKeeperStore:
        """As ``begin``, and wait until the session is there; a chroot is made if it is missing.

        EnsembleError if none is within the connection timeout, or the ensemble refuses.
        """
        store = cls.begin(
            connect,
            session_timeout_ms=session_timeout_ms,
            credentials=credentials,
            own_acl=own_acl,
        )
        patience_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
        silence = store._loop.call_later(
            SILENCE_S, logger.warning, "No ZooKeeper answers at %s yet; trying on", connect
        )
        try:
            async with asyncio.timeout(patience_ms / 1000):
                await store._ready()
                if store._client.chroot and await store.exists("/") is None:
                    await store._make_chroot(connect, session_timeout_ms, credentials)
        except TimeoutError:
            await store.close()
            raise EnsembleError(
                f"no ZooKeeper answers at {connect} within {patience_ms} ms"
                f"{await store._unknown_hosts()}"
            ) from None
        except SessionExpiredError:
            await store.close()
            raise EnsembleError(f"ZooKeeper at {connect} accepts no session") from None
        except BaseException:
            await store.close()
            raise
        finally:
            silence.cancel()
        return store

    async def _make_chroot(
        self, connect: str, session_timeout_ms: int, credentials: str | None
    ) -> None:
        """In a session of its own, which sees what is above; others may share that."""
        hosts, _, chroot = connect.partition("/")
        above = await ZooKeeperStore.open(
            hosts, session_timeout_ms=session_timeout_ms, credentials=credentials
        )
        try:
            await above.ensure_path(f"/{chroot.rstrip('/')}")
        finally:
            await above.close()

    @property
    def can_lose_changes(self) -> bool:
        """What an ensemble has acknowledged stays."""
        return False

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set() and not self._ended

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._session_timeout_ms

    @property
    def has_ended(self) -> bool:
        return self._ended

    # Reading

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        check_path(path)

        def keep(answer: Any) -> None:
            if watch is not None:
                self._watches.add_data(path, watch, answer[1].mzxid)

        try:
            data, found = await self._read(self._get(path, watch), keep)
        except kazoo.NoNodeError:
            raise NoNodeError(path) from None
        return data or b"", stat(found)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        parts = [
            paths[first : first + READS_AT_ONCE] for first in range(0, len(paths), READS_AT_ONCE)
        ]
        calls = [partial(self._multi_read, part) for part in parts]
        try:
            answers = await self._read_all(calls)
        except (EnsembleError, ReadFailedError, kazoo.ZookeeperError):
            return await self._get_each(paths)  # the server is older, or one of them is special
        return [node for answer in answers for node in answer]

    async def _get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        calls = [self._get(path, None) for path in paths]
        await self._ready()
        pending = [await self._submit(call) for call in calls]
        found: list[tuple[bytes, Stat] | None] = []
        for call, future in zip(calls, pending, strict=True):
            try:
                try:
                    data, node = await future
                except BROKEN:
                    data, node = await self._read(call)
            except kazoo.NoNodeError:
                found.append(None)
            else:
                found.append((data or b"", stat(node)))
        return found

    async def _read_all(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Ask for all of it at once, and again for what was lost on the way."""
        await self._ready()
        pending = [await self._submit(call) for call in calls]
        # Several may fail, and nobody waits for those behind the first.
        for future in pending:
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        answers = []
        for call, future in zip(calls, pending, strict=True):
            try:
                answers.append(await future)
            except BROKEN:
                answers.append(await self._read(call))
        return answers

    def _multi_read(self, paths: Sequence[str]) -> Any:
        answer = self._client.handler.async_result()
        self._client._call(MultiRead(self._client.chroot, paths), answer)
        return answer

    def _get(self, path: str, watch: Watch | None) -> Callable[[], Any]:
        hook = None if watch is None else self._on_event
        return partial(self._client.get_async, path, watch=hook)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)

        def keep(answer: Any) -> None:
            if watch is not None:
                self._watches.add_data(path, watch, ABSENT if answer is None else answer.mzxid)

        hook = None if watch is None else self._on_event
        found = await self._read(partial(self._client.exists_async, path, watch=hook), keep)
        return None if found is None else stat(found)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)

        def keep(answer: Any) -> None:
            if watch is not None:
                self._watches.add_children(path, watch, answer[1].pzxid)

        try:
            names, _ = await self._read(self._children(path, watched=watch is not None), keep)
        except kazoo.NoNodeError:
            raise NoNodeError(path) from None
        return sorted(names)

    def _children(self, path: str, *, watched: bool) -> Callable[[], Any]:
        hook = self._on_event if watched else None
        return partial(self._client.get_children_async, path, watch=hook, include_data=True)

    # Changing

    async def multi_many(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        for ops in batches:
            for op in ops:
                check_path(op.path)
        await self._ready()
        pending = [
            await self._submit(partial(self._transaction, ops), is_read=False) if ops else None
            for ops in batches
        ]
        answers: list[list[OpResult] | Exception] = []
        for ops, future in zip(batches, pending, strict=True):
            try:
                answers.append([] if future is None else results(ops, await future))
            except BROKEN as error:
                answers.append(lost(error))
            except CoordinationError as error:
                answers.append(error)
            except kazoo.ZookeeperError as error:
                answers.append(EnsembleError(f"ZooKeeper refuses: {error!r}"))
        return answers

    def _transaction(self, ops: Sequence[Op]) -> Any:
        transaction = self._client.transaction()
        for op in ops:
            match op:
                case Create(path, data, ephemeral, sequence):
                    transaction.create(path, data, ephemeral=ephemeral, sequence=sequence)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    # The session

    def on_expired(self, callback: Callable[[], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        self._listeners.clear()
        self._end()
        assert self._stopping is not None
        _, unfinished = await asyncio.wait([self._stopping], timeout=FAREWELL_S)
        if unfinished:
            logger.warning(
                "ZooKeeper does not say goodbye to session %#x: it ends by itself", self._session_id
            )

    def _end(self) -> None:
        self._ended = True
        self._connected.set()  # whoever waits for a connection learns that there will be none
        self._watches.clear()
        if self._rearming is not None:
            self._rearming.cancel()
        if self._stopping is None:
            self._stopping = self._client.handler.run_apart(self._stop_client)

    def _stop_client(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            # Kazoo gives up on a thread that hangs in a connection attempt. It ends by itself.
            logger.exception("ZooKeeper session %#x is not closed properly", self._session_id)

    async def _unknown_hosts(self) -> str:
        """Returns which names lead nowhere, as the end of a sentence."""
        handler = self._client.handler
        look_ups = {
            host: handler.run_apart(partial(_look_up, host)) for host, _ in self._client.hosts
        }
        await asyncio.wait(look_ups.values(), timeout=LOOK_UP_S)
        names = [
            f"{host} is not known ({look_up.result()})"
            for host, look_up in look_ups.items()
            if look_up.done() and look_up.result() is not None
        ]
        return f": {', '.join(names)}" if names else ""

    def _tell_state(self, state: str) -> None:
        """Called in kazoo's thread."""
        self._client.handler.completion_queue.put(partial(self._on_state, state))

    def _on_state(self, state: str) -> None:
        if self._ended:
            return
        if state == KazooState.SUSPENDED:
            logger.warning("The connection to ZooKeeper is broken; the session may survive it")
            self._connected.clear()
            self._connection += 1
            if self._rearming is not None:
                self._rearming.cancel()
        elif state == KazooState.CONNECTED:
            if self._session_id:
                logger.info("There is a connection to ZooKeeper again")
            self._session_id = self._client.client_id[0]
            self._rearming = self._loop.create_task(self._rearm())
        else:
            logger.warning("ZooKeeper session %#x is over", self._session_id)
            listeners, self._listeners = self._listeners, []
            self._end()
            for listener in listeners:
                listener()

    async def _rearm(self) -> None:
        """Leave all watches again, then let the requests that wait come."""
        watches = self._watches
        data, children = [], []
        for path in watches.data_paths():
            await self._slots.acquire()
            call = partial(self._client.exists_async, path, watch=self._on_event)
            data.append((path, self._send(call)))
        for path in watches.children_paths():
            await self._slots.acquire()
            children.append((path, self._send(self._children(path, watched=True))))
        try:
            for path, future in data:
                with self._firing_if_refused(EventType.CHANGED, path):
                    found = await future
                    watches.compare_data(path, ABSENT if found is None else found.mzxid)
            for path, future in children:
                with self._firing_if_refused(EventType.CHILDREN, path):
                    try:
                        watches.compare_children(path, (await future)[1].pzxid)
                    except kazoo.NoNodeError:
                        watches.compare_children(path, ABSENT)
        except BROKEN:
            return  # all of it again with the next connection
        self._connected.set()

    @contextmanager
    def _firing_if_refused(self, kind: EventType, path: str) -> Iterator[None]:
        """A watch that cannot be left again fires: its owner looks for itself, hears why it may not
        look, and tries again. Nobody waits for what would never be told.
        """
        try:
            yield
        except BROKEN:
            raise
        except Exception as error:
            logger.error("Node %s cannot be watched any more: ZooKeeper says %r", path, error)
            self._watches.fire(kind, path)

    def _on_event(self, event: Any) -> None:
        kind = EVENTS.get(event.type)
        if kind is not None and not self._ended:
            self._watches.fire(kind, event.path)

    # Requests

    async def _ready(self) -> None:
        await self._connected.wait()
        if self._ended:
            raise SessionExpiredError(f"session {self._session_id:#x} is over")

    async def _read(
        self, call: Callable[[], Any], on_answer: Callable[[Any], None] | None = None
    ) -> Any:
        """Ask until there is an answer."""
        while True:
            future = await self._submit(call, on_answer)
            try:
                return await future
            except BROKEN:
                await asyncio.sleep(0)  # the news of the break is on its way to the loop
            except kazoo.NoNodeError:
                raise
            except kazoo.ZookeeperError as error:
                raise EnsembleError(f"ZooKeeper refuses: {error!r}") from None

    async def _submit(
        self,
        call: Callable[[], Any],
        on_answer: Callable[[Any], None] | None = None,
        *,
        is_read: bool = True,
    ) -> asyncio.Future[Any]:
        """Send a request when there is a connection whose watches are in place."""
        while True:
            await self._ready()
            await self._slots.acquire()
            if self._connected.is_set() and not self._ended:
                return self._send(call, on_answer, is_read=is_read)
            self._slots.release()

    def _send(
        self,
        call: Callable[[], Any],
        on_answer: Callable[[Any], None] | None = None,
        *,
        is_read: bool = True,
    ) -> asyncio.Future[Any]:
        """Send a request, which has a slot; ``on_answer`` runs in the order of answers and
        events."""
        future: asyncio.Future[Any] = self._loop.create_future()
        connection = self._connection if is_read else None
        call().rawlink(partial(self._deliver, future, on_answer, connection))
        return future

    def _deliver(
        self,
        future: asyncio.Future[Any],
        on_answer: Callable[[Any], None] | None,
        connection: int | None,
        result: Any,
    ) -> None:
        self._slots.release()
        error = result.exception
        if connection not in (None, self._connection):
            # Kazoo kept the request through a break. What it read may be newer than an event that
            # is still to come, because the watches were not in place yet.
            error = kazoo.ConnectionLoss()
        if error is None and on_answer is not None and not self._ended:
            on_answer(result.value)
        if future.done():
            return
        if error is None:
            future.set_result(result.value)
        else:
            future.set_exception(error)


def _look_up(host: str) -> str | None:
    """Returns what is wrong with a name."""
    try:
        getaddrinfo(host, None)
    except OSError as error:
        return error.strerror or str(error)
    return None

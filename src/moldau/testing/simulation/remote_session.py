"""A session on a coordination store that is elsewhere, as a ZooKeeper client has one.

Requests, answers and events keep their order, each way, and take their time. While the connection
is broken, requests wait for the next one. Of those under way when it breaks some get to the store
and others do not: a read is made again, a change fails with ``ConnectionLostError``, made or not.
Watches are left anew on the next connection, and what happened in between is told then. A store
that hears nothing for the session timeout ends the session, whoever is to blame for the silence.
While the store is down the client tries to reach it; the next life of the store knows the session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import (
    ConnectionLostError,
    CoordinationError,
    NoNodeError,
    SessionExpiredError,
)
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordination.session_watches import ABSENT, SessionWatches
from moldau.coordination.single_changes import SingleChanges
from moldau.coordination.store import (
    Op,
    OpResult,
    Stat,
    Watch,
    WatchEvent,
)
from moldau.coordination.tree import check_path
from moldau.testing.simulation.loop import SimulatedHandle, SimulatedLoop
from moldau.testing.simulation.process import PROCESS

if TYPE_CHECKING:
    from moldau.testing.simulation.coordination import SimulatedEnsemble

T = TypeVar("T")

CONNECT_AGAIN: Final = 0.1
"""Seconds between two tries to reach the store."""

Call: TypeAlias = Callable[[EmbeddedSession, Watch], Coroutine[Any, Any, T]]
"""What the store is asked for: on its own session, with what to call when a watch fires."""


class _BrokenError(Exception):
    """The connection is gone, and with it the answer."""


class _Request:
    """One call; its watches and its answer belong to the connection that it was sent on."""

    __slots__ = ("answered", "arrival", "call", "connection", "early_events", "future", "on_answer")

    def __init__(
        self,
        call: Call[Any],
        connection: int,
        future: asyncio.Future[Any],
        on_answer: Callable[[Any], object] | None,
    ) -> None:
        self.call = call
        self.connection = connection
        self.future = future
        self.on_answer = on_answer
        self.arrival: SimulatedHandle | None = None
        """At the store; None once it is there."""
        self.answered = False
        self.early_events: list[WatchEvent] = []
        """Of watches that it left and that fired before it was answered."""


class _Wire:
    """One direction: what is sent arrives in order, some time later, if the one that it was sent to
    still runs.
    """

    def __init__(
        self, loop: SimulatedLoop, delay: Callable[[], float], context: Callable[[], Context]
    ) -> None:
        self._loop = loop
        self._delay = delay
        self._context = context
        self._arrives_at = 0.0

    def send(self, callback: Callable[..., object], *args: Any) -> SimulatedHandle:
        self._arrives_at = max(self._loop.time() + self._delay(), self._arrives_at)
        return self._loop.call_at(self._arrives_at, callback, *args, context=self._context())


class _AtStore:
    """The session in one life of the store, which does what it is asked for in order."""

    def __init__(self, ensemble: SimulatedEnsemble, session: EmbeddedSession) -> None:
        self.session = session
        self.kept: KeptSessions = ensemble.kept
        self._node = ensemble.node
        self._arrived: deque[_Request] = deque()
        self._serving = False

    def arrive(self, request: _Request, answer: Callable[[_Request], Any]) -> None:
        self._arrived.append(request)
        if not self._serving:
            self._serving = True
            self._node.spawn(self._serve(answer))

    async def _serve(self, answer: Callable[[_Request], Any]) -> None:
        while self._arrived:
            await answer(self._arrived.popleft())
        self._serving = False


class RemoteSession(SingleChanges):
    """A session of the process that makes it; satisfies ``CoordinationStore``."""

    def __init__(self, ensemble: SimulatedEnsemble, loop: SimulatedLoop, password: bytes) -> None:
        self._ensemble = ensemble
        self._session_id = 0
        self._password = password
        self._timeout = ensemble.session_timeout
        process = PROCESS.get()
        self.client = "" if process is None else process.name.partition("#")[0]
        """The node of the process."""
        self._loop = loop
        self._context = copy_context()
        """Of the process: what comes for it waits while it is paused, and is gone when it is."""
        self._to_store = _Wire(loop, ensemble.delay, lambda: ensemble.context)
        self._to_process = _Wire(
            loop, lambda: ensemble.delay() + ensemble.lateness(self.client), lambda: self._context
        )
        # At the store
        self.was_ended = False
        """Whether somebody has ended it, rather than silence."""
        self._at_store: _AtStore | None = None
        self._has_begun = False
        self._opening_in: KeptSessions | None = None
        # In the process
        self._is_known = False
        """Whether the process knows that the session has begun."""
        self._watches = SessionWatches()
        self._in_flight: dict[_Request, None] = {}
        self._connected = asyncio.Event()
        self._connection = 0
        """Counts the connections of the session."""
        self._is_broken = False
        """Whether the present connection is still to be made."""
        self._rearming: asyncio.Task[None] | None = None
        self._ended = False
        self._listeners: list[Callable[[], object]] = []
        self._connect(self._connection)
        self._beat()

    @property
    def can_lose_changes(self) -> bool:
        """What an ensemble has acknowledged stays."""
        return False

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set() and not self._ended

    @property
    def session_id(self) -> int:
        """As the store has named it; 0 before it has."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return round(self._timeout * 1000)

    @property
    def is_over(self) -> bool:
        """Whether the store has ended the session, known or not to the process."""
        return self._session_id not in self._ensemble.kept if self._has_begun else self._ended

    # What goes wrong -----------------------------------------------------------------------------

    def lose_connection(self, seconds: float = 0.0) -> None:
        """Break the connection; the next one is made after so many seconds."""
        self._connection += 1
        self._is_broken = True
        under_way = [request for request in self._in_flight if request.arrival is not None]
        # The first of what was under way get through, the rest do not.
        for request in under_way[self._ensemble.random.randrange(len(under_way) + 1) :]:
            assert request.arrival is not None
            request.arrival.cancel()
        self._loop.call_soon(self._disconnected, self._connection, seconds, context=self._context)

    def miss_the_store(self) -> None:
        """The store is gone without a word: the process gives up on it after a while."""
        self._loop.call_later(
            self._timeout * 2 / 3, self._give_up, self._connection, context=self._context
        )

    def _give_up(self, connection: int) -> None:
        if connection == self._connection:
            self.lose_connection()

    async def expire(self) -> None:
        """End the session, as the store does that has not heard of it for too long."""
        self.was_ended = True
        await self._ensemble.node.run(self._ensemble.kept.expire(self._session_id))

    # Reading -------------------------------------------------------------------------------------

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def keep(answer: tuple[bytes, Stat]) -> None:
            if watch is not None:
                self._watches.add_data(path, watch, answer[1].mzxid)

        check_path(path)
        return await self._read(
            lambda session, hook: session.get(path, hook if watch else None), keep
        )

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return await self._read(lambda session, _: session.get_many(paths))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        def keep(stat: Stat | None) -> None:
            if watch is not None:
                self._watches.add_data(path, watch, ABSENT if stat is None else stat.mzxid)

        check_path(path)
        return await self._read(
            lambda session, hook: session.exists(path, hook if watch else None), keep
        )

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def keep(answer: tuple[list[str], int]) -> None:
            if watch is not None:
                self._watches.add_children(path, watch, answer[1])

        check_path(path)
        return (await self._read(_children(path, watched=watch is not None), keep))[0]

    # Changing ------------------------------------------------------------------------------------

    async def multi_many(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        for ops in batches:
            for op in ops:
                check_path(op.path)
        await self._ready()
        pending = [self._send(_multi(ops)) for ops in batches]
        answers: list[list[OpResult] | Exception] = []
        for future in pending:
            try:
                answers.append(await future)
            except _BrokenError:
                answers.append(
                    ConnectionLostError("the connection broke: whether the change was made is open")
                )
            except CoordinationError as error:
                answers.append(error)
        return answers

    # The end of the session ----------------------------------------------------------------------

    def on_expired(self, callback: Callable[[], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        self._listeners.clear()
        if self._connected.is_set() and not self._ended:
            with suppress(_BrokenError, SessionExpiredError):  # the store will miss it, or does
                await self._send(self._close_at_store)
        self._end()

    async def _close_at_store(self, session: EmbeddedSession, _watch: Watch) -> None:
        await session.close()
        self._ensemble.kept.forget(self._session_id)

    def _hear_of_the_end(self, connection: int) -> None:
        if connection == self._connection and not self._is_broken and not self._ended:
            listeners, self._listeners = self._listeners, []
            self._end()
            for listener in listeners:
                listener()

    def _end(self) -> None:
        self._ended = True
        self._watches.clear()
        self._connected.set()  # whoever waits for a connection learns that there will be none
        if self._rearming is not None:
            self._rearming.cancel()
        self._fail_in_flight(lambda: SessionExpiredError(f"session {self.session_id:#x} is over"))

    def _fail_in_flight(self, error: Callable[[], Exception]) -> None:
        requests, self._in_flight = self._in_flight, {}
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error())

    def _beat(self) -> None:
        """Let the store know that the process is there; runs in the process."""
        if not self._ended:
            if self._connected.is_set():
                self._to_store.send(self._hear, self._connection)
            self._loop.call_later(self._timeout / 3, self._beat, context=self._context)

    def _hear(self, connection: int) -> None:
        if connection == self._connection:
            self._ensemble.kept.hear(self._session_id)

    # Connections ---------------------------------------------------------------------------------

    def _disconnected(self, connection: int, seconds: float) -> None:
        """The process finds its connection broken."""
        if self._ended:
            return
        self._connected.clear()
        if self._rearming is not None:
            self._rearming.cancel()
        self._fail_in_flight(_BrokenError)
        self._loop.call_later(seconds, self._connect, connection, context=self._context)

    def _connect(self, connection: int) -> None:
        """Ask the store for the session until it answers; runs in the process."""
        if connection != self._connection or self._ended or self._connected.is_set():
            return
        if self._rearming is not None and not self._rearming.done():
            return
        self._is_broken = False
        if self._ensemble.is_reached_by(self.client):
            self._to_store.send(self._begin, connection, not self._is_known)
        self._loop.call_later(
            CONNECT_AGAIN + 3 * self._ensemble.slowest,
            self._connect,
            connection,
            context=self._context,
        )

    def _begin(self, connection: int, is_new: bool) -> None:
        self._ensemble.node.spawn(self._attach(connection, is_new=is_new))

    async def _attach(self, connection: int, *, is_new: bool) -> None:
        """The store looks for the session, or opens it."""
        kept = self._ensemble.kept
        session = kept.resume(self._session_id, self._password)
        if session is None and is_new and not self._has_begun:
            if self._opening_in is kept:
                return  # it was asked twice
            self._opening_in = kept
            timeout_ms = round(self._timeout * 1000)
            with suppress(CoordinationError):  # it is asked again
                session = await kept.open(timeout_ms, self._password)
                self._session_id = session.session_id
                self._has_begun = True
            self._opening_in = None
        elif session is None:
            self._to_process.send(self._hear_of_the_end, connection)
        if session is None:
            return
        if self._at_store is None or self._at_store.kept is not kept:
            self._at_store = _AtStore(self._ensemble, session)
            session.on_expired(
                lambda: self._to_process.send(self._hear_of_the_end, self._connection)
            )
        self._to_process.send(self._welcome, connection)

    def _welcome(self, connection: int) -> None:
        if connection != self._connection or self._ended or self._connected.is_set():
            return
        if self._rearming is None or self._rearming.done():
            self._is_known = True
            self._rearming = self._loop.create_task(self._rearm())

    async def _rearm(self) -> None:
        """Leave all watches again, then let the requests that wait come."""
        watches = self._watches
        data = [(path, self._send(_exists(path))) for path in watches.data_paths()]
        children = [
            (path, self._send(_children(path, watched=True))) for path in watches.children_paths()
        ]
        try:
            for path, node in data:
                stat = await node
                watches.compare_data(path, ABSENT if stat is None else stat.mzxid)
            for path, names in children:
                try:
                    watches.compare_children(path, (await names)[1])
                except NoNodeError:
                    watches.compare_children(path, ABSENT)
        except (_BrokenError, SessionExpiredError):
            return  # all of it again with the next connection, if there is one
        self._connected.set()

    # Requests ------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        await self._connected.wait()
        if self._ended:
            raise SessionExpiredError(f"session {self.session_id:#x} is over")

    async def _read(self, call: Call[T], on_answer: Callable[[T], object] | None = None) -> T:
        """Ask until there is an answer."""
        while True:
            await self._ready()
            try:
                return await self._send(call, on_answer)
            except _BrokenError:
                continue

    def _send(
        self, call: Call[T], on_answer: Callable[[T], object] | None = None
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        # Several may be under way, and whoever waits for them may be gone.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        request = _Request(call, self._connection, future, on_answer)
        self._in_flight[request] = None
        request.arrival = self._to_store.send(self._arrive, request)
        return future

    def _arrive(self, request: _Request) -> None:
        request.arrival = None
        at_store = self._at_store
        if at_store is None or at_store.kept is not self._ensemble.kept:
            return  # sent to a life of the store that is over
        self._ensemble.kept.hear(self._session_id)
        at_store.arrive(request, partial(self._answer, at_store.session))

    async def _answer(self, session: EmbeddedSession, request: _Request) -> None:
        def fire(event: WatchEvent) -> None:
            if request.answered:
                self._to_process.send(self._take_event, request.connection, event)
            else:
                request.early_events.append(event)

        result: Any = None
        error: Exception | None = None
        try:
            result = await request.call(session, fire)
        except CoordinationError as refusal:
            error = refusal
        request.answered = True
        self._to_process.send(self._take_answer, request, result, error)
        for event in request.early_events:
            fire(event)

    def _take_answer(self, request: _Request, result: Any, error: Exception | None) -> None:
        self._in_flight.pop(request, None)
        if request.connection != self._connection or request.future.done():
            return
        if error is not None:
            request.future.set_exception(error)
            return
        if request.on_answer is not None:
            request.on_answer(result)
        request.future.set_result(result)

    def _take_event(self, connection: int, event: WatchEvent) -> None:
        if connection == self._connection and not self._ended:
            self._watches.fire(event.type, event.path)


def _multi(ops: Sequence[Op]) -> Call[list[OpResult]]:
    return lambda session, _: session.multi(ops)


def _exists(path: str) -> Call[Stat | None]:
    return lambda session, hook: session.exists(path, hook)


def _children(path: str, *, watched: bool) -> Call[tuple[list[str], int]]:
    """Names, and the transaction that last changed them."""

    async def children(session: EmbeddedSession, hook: Watch) -> tuple[list[str], int]:
        names = await session.children(path, hook if watched else None)
        stat = await session.exists(path)
        return names, ABSENT if stat is None else stat.pzxid

    return children

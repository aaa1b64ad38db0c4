"""The sessions of clients elsewhere: they outlive connections, and the store's own process.

``EmbeddedStore`` journals them, ``SessionTable`` says whose time is up; here is the timer between
the two. The server on a port and the simulated ensemble share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from hmac import compare_digest
from typing import Any, Final

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import CoordinationError
from moldau.coordination.sessions import TOLERANCE, Session, SessionTable
from moldau.machine.clock import Clock, Timer

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Until the end of a session that could not be written (the disk is full) is tried again."""


class KeptSessions:
    """All sessions of a store that was opened with ``keeps_sessions``."""

    def __init__(self, store: EmbeddedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._table = SessionTable()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._ending: set[int] = set()
        self._timer: Timer | None = None
        self._due = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.on_expired: Callable[[int], object] = _nobody
        """Told of every session that was ended from outside."""
        heard_at = self._heard_before_the_restart(clock.monotonic())
        for session in store.kept_sessions():
            self._sessions[session.id] = store.adopt(session)
            self._table.add(session, heard_at)
        self._set_timer()

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def _heard_before_the_restart(self, now: float) -> float:
        """Returns when the sessions of an earlier life count as heard: now, which is the grace."""
        return now

    async def open(self, timeout_ms: int, password: bytes) -> EmbeddedSession:
        """Begin a session; it is durable on return."""
        session = Session(self._store.new_session_id(), password, timeout_ms)
        opened = await self._store.open_session(session)
        self._sessions[session.id] = opened
        self._table.add(session, self._clock.monotonic())
        self._set_timer()
        return opened

    def resume(self, session_id: int, password: bytes) -> EmbeddedSession | None:
        """Returns the session for another connection; None if it is over, or not theirs."""
        session = self._sessions.get(session_id)
        if session is None or session_id in self._ending or session.kept is None:
            return None
        if not compare_digest(session.kept.password, password):
            return None
        self.hear(session_id)
        return session

    def hear(self, session_id: int) -> None:
        self._table.hear(session_id, self._clock.monotonic())

    def forget(self, session_id: int) -> None:
        """The session was closed by its owner."""
        self._sessions.pop(session_id, None)
        self._table.remove(session_id)

    async def expire(self, session_id: int) -> None:
        """End a session from outside, as its silence does."""
        session = self._sessions.get(session_id)
        if session is None or session_id in self._ending:
            return
        self._ending.add(session_id)
        try:
            await self._store.expire(session)
            self.forget(session_id)
            self.on_expired(session_id)
        finally:
            self._ending.discard(session_id)

    def close(self) -> None:
        """Look after nobody any more; the sessions go on when the store is opened again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    # Silence -------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        end = self._table.next_end()
        if self._closed or end is None:
            return
        if self._timer is not None:
            if self._due <= end:
                return  # it looks again then
            self._timer.cancel()
        self._look_at(end)

    def _look_at(self, due: float) -> None:
        self._due = due
        delay = max(0.0, due - self._clock.monotonic())
        self._timer = self._clock.call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        late = now - self._due
        if late > TOLERANCE:
            # This process was stopped, or the machine: what its clients sent may be unread.
            logger.warning("Coordination was held up for %.1f s; sessions get that time", late)
            self._table.was_away(late)
        silent = [one for one in self._table.silent(now) if one not in self._ending]
        for session_id in silent:
            self._spawn(self._end_silent(session_id))
        if not silent:
            self._set_timer()

    async def _end_silent(self, session_id: int) -> None:
        logger.info("Session %#x was silent for too long: it is over", session_id)
        try:
            await self.expire(session_id)
        except CoordinationError as error:
            logger.warning("Session %#x could not be ended yet: %s", session_id, error)
            if self._timer is None and not self._closed:
                self._look_at(self._clock.monotonic() + RETRY_S)
            return
        self._set_timer()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _nobody(_session_id: int) -> None:
    return

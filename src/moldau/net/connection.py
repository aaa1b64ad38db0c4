"""The broker's side of one connection: frames in, answers out in the order of their requests.

Nothing here knows about sockets: any ``Transport`` drives it, also one that lives in memory.

- Requests are executed one after another. The handler answers at once (parts), later (``Pending``)
  or never (None, for ``acks=0``). The requests behind one that is not answered yet wait their turn,
  since they could see its effect: a client may rely on that what it asked for last is true last.
  Only appends follow appends, and an answer that is ready waits for those before it.
- What was pipelined is answered together, with one write.
- Reading stops while the peer does not take its answers, while too many requests are unanswered,
  while too many bytes wait behind a parked one, or while there is no memory for more of the next
  request. So memory is bounded whatever peers do.
- A connection handles a limited number of requests per turn; the others' turn comes in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from typing import Final, TypeAlias

from moldau.config.options.network import NetworkOptions
from moldau.machine.clock import Clock, Timer
from moldau.machine.network import Part, Transport
from moldau.model import ANONYMOUS
from moldau.net.errors import FrameSizeError
from moldau.net.frames import BufferPool, FrameReader
from moldau.net.garbage import describe_garbage
from moldau.net.log_limiter import LogLimiter
from moldau.wire.errors import EncodeError, ProtocolError

logger = logging.getLogger(__name__)

# Parts written together; then the transport gets them, so that it can say stop.
PARTS_PER_WRITE: Final = 32

Handler: TypeAlias = "Callable[[ServerConnection, memoryview], Sequence[Part] | Pending | None]"
"""Executes one request: a writable view of the frame without its size prefix.

The view is of memory that the next request overwrites, so neither an answer nor anything else that
outlives the call may hold on to it. Answers are whole frames, size prefix included.
"""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may cost."""

    max_request_bytes: int = NetworkOptions.socket_request_max_bytes.default
    """``socket.request.max.bytes``: a larger frame closes the connection before it is read."""

    max_in_flight: int = 256
    """Requests without an answer yet; beyond it the connection is not read."""

    max_waiting_bytes: int = 1024 * 1024
    """Answers in memory that wait behind a parked one; beyond it the connection is not read."""

    requests_per_turn: int = 64
    """Requests executed before other connections get their turn."""


class Blocked(IntFlag):
    """Why the next request is not executed."""

    WRITING = 1
    """The peer does not take its answers."""
    FULL = 2
    """Too many requests are unanswered, or their answers take too much memory."""
    TURN = 4
    """It is the other connections' turn."""
    CLOSING = 8
    """No further request is executed."""
    BEHIND = 16
    """A request that must not be overtaken is not answered yet."""
    MUTED = 32
    """The peer has gone over a quota."""
    MEMORY = 64
    """The next request is unfinished, and there is no memory for more of it."""


# Plain integers: the arithmetic of IntFlag costs a microsecond each time.
_FREE: Final = 0
_WRITING: Final = int(Blocked.WRITING)
_FULL: Final = int(Blocked.FULL)
_TURN: Final = int(Blocked.TURN)
_CLOSING: Final = int(Blocked.CLOSING)
_BEHIND: Final = int(Blocked.BEHIND)
_MUTED: Final = int(Blocked.MUTED)
_MEMORY: Final = int(Blocked.MEMORY)

_API_KEY: Final = Struct(">h")


class Pending:
    """The place of an answer that comes later. A handler makes one, returns it, and completes it
    some day.
    """

    __slots__ = (
        "_connection",
        "_on_done",
        "_parts",
        "abandoned",
        "done",
        "follower",
        "on_abandoned",
    )

    def __init__(self, follower: int | None = None) -> None:
        self.follower = follower
        """The key of the API whose requests may be executed before this answer has come."""
        self.done = False
        self.abandoned = False
        """The connection has ended before the answer came: nobody waits for it any more."""
        self.on_abandoned: Callable[[], object] | None = None
        """Called when that happens."""
        self._on_done: Callable[[Sequence[Part]], object] | None = None
        self._parts: Sequence[Part] = ()
        self._connection: ServerConnection | None = None

    def complete(self, parts: Sequence[Part] | None) -> None:
        """Give the answer; None means that there is none.

        Only the first call counts, and after the end of the connection it does nothing.
        """
        if self.done:
            return
        self.done = True
        if parts:
            self._parts = parts
        connection = self._connection
        if connection is not None:
            connection._completed(self)
        elif self._on_done is not None:
            self._on_done(self._parts)

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""
        self.abandoned = True
        if self.on_abandoned is not None:
            self.on_abandoned()

    def take_over(self, other: Pending) -> None:
        """Give the answer that the other gets. Who abandons this one abandons the other, and what
        may follow the other may follow this one.
        """
        if self.abandoned:
            other.abandon()
            return
        self.on_abandoned = other.abandon
        if other.follower is not None:
            self.let_follow(other.follower)
        other.when_done(self.complete)

    def let_follow(self, follower: int) -> None:
        """What a request of this API could see is there by now; only the answer is not."""
        self.follower = follower
        if self._connection is not None:
            self._connection._may_follow()

    def when_done(self, callback: Callable[[Sequence[Part]], object]) -> None:
        """Call back with the answer, maybe at once: for who stands between the handler and the
        connection.
        """
        if self.done:
            callback(self._parts)
        else:
            self._on_done = callback


def _size_in_memory(parts: Sequence[Part]) -> int:
    """Returns what an answer costs while it waits; a slice of a file is only its description."""
    size = 0
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            size += len(part)
    return size


class ServerConnection:
    """Makes requests of a peer's bytes and keeps the order of the answers."""

    __slots__ = (
        "_answer_scheduled",
        "_blocked",
        "_eof",
        "_executing",
        "_handler",
        "_limits",
        "_log_limiter",
        "_muted_until",
        "_on_close",
        "_reader",
        "_transport",
        "_unmute_timer",
        "_waiting",
        "_waiting_bytes",
        "active",
        "authentication",
        "broker_id",
        "closed",
        "listener",
        "principal",
    )

    def __init__(
        self,
        handler: Handler,
        *,
        pool: BufferPool,
        log_limiter: LogLimiter,
        listener: str = "PLAINTEXT",
        limits: ConnectionLimits | None = None,
        on_close: Callable[[ServerConnection], object] | None = None,
    ) -> None:
        self._handler = handler
        self._limits = limits or ConnectionLimits()
        self._on_close = on_close
        self._log_limiter = log_limiter
        self._transport: Transport
        self._waiting: deque[Pending] = deque()
        self._waiting_bytes = 0
        self._blocked = _FREE
        self._muted_until = 0.0
        self._unmute_timer: Timer | None = None
        self._executing = False
        self._answer_scheduled = False
        self._eof = False
        self.listener = listener
        self.closed = False
        """The transport is gone: nothing can be answered any more."""
        self.active = False
        """Bytes moved since somebody last set this to False."""
        self.principal = ANONYMOUS
        """Who the peer has shown to be."""
        self.broker_id = -1
        """The id of the broker of this cluster that the peer has shown to be, else -1."""
        self.authentication: object | None = None
        """What is remembered of it while it is under way."""
        # Last: attributes that are set after ``self`` is handed out are looked for on every access.
        self._reader = FrameReader(pool, self._limits.max_request_bytes, self)

    def __repr__(self) -> str:
        return f"<connection of {self.peer} on {self.listener}>"

    @property
    def peer(self) -> str:
        return self._transport.peer

    @property
    def peer_host(self) -> str:
        return self._transport.peer_host

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not been handed to the transport."""
        return len(self._waiting)

    @property
    def is_closing(self) -> bool:
        return bool(self._blocked & _CLOSING)

    @property
    def blocked(self) -> Blocked:
        return Blocked(self._blocked)

    # What the transport calls

    def connection_made(self, transport: Transport) -> None:
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        self._reader.received(nbytes)
        self._execute()

    def eof_received(self) -> bool:
        self._eof = True
        return bool(self._waiting or self._blocked)

    def pause_writing(self) -> None:
        self._block(_WRITING)

    def resume_writing(self) -> None:
        self.active = True
        self._unblock(_WRITING)

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ConnectionError | TimeoutError):
            logger.debug("%s on listener %s is lost: %s", self.peer, self.listener, error)
        elif error is not None:
            self._warn(type(error).__name__, str(error))
        self.closed = True
        self._blocked |= _CLOSING
        self._cancel_unmute()
        self._drop_waiting()
        self._reader.discard()
        if self._on_close is not None:
            self._on_close(self)

    # What the broker calls

    def close(self) -> None:
        """Close; answers that are ready still go out, parked ones are dropped."""
        self._drop_waiting()
        self.finish()

    def finish(self) -> None:
        """Execute no further request, answer those in flight, then close."""
        self._block(_CLOSING)
        if not self._executing:  # else the handler is at work on bytes of the reader
            self._reader.discard()
        self._close_if_done()

    def refuse(self, error: Exception) -> None:
        """Close because of what the peer sent, or because the handler failed on it."""
        if isinstance(error, FrameSizeError):
            self._warn(*describe_garbage(error.start, error.size, error.limit))
        elif isinstance(error, ProtocolError) and not isinstance(error, EncodeError):
            self._warn(type(error).__name__, str(error) or type(error).__name__)
        else:
            logger.error(
                "closing %s on listener %s: a request failed",
                self.peer,
                self.listener,
                exc_info=error,
            )
        self.close()

    def mute(self, seconds: float, clock: Clock) -> None:
        """Execute no further request for a time; answers still go. Of several times the one that
        ends last counts.
        """
        until = clock.monotonic() + seconds
        if self.closed or (self._unmute_timer is not None and until <= self._muted_until):
            return
        self._cancel_unmute()
        self._muted_until = until
        self._unmute_timer = clock.call_later(seconds, self._unmute)
        self._block(_MUTED)

    def _unmute(self) -> None:
        self._unmute_timer = None
        self._unblock(_MUTED)

    def _cancel_unmute(self) -> None:
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None

    def end_turn(self) -> None:
        """For a handler whose work is not cheap: others get their turn before the next request of
        this peer.
        """
        if self._reader.buffered:
            self._yield_turn()

    def abort(self) -> None:
        """Close at once, without any further answer."""
        self._drop_waiting()
        self._blocked |= _CLOSING
        self._transport.abort()

    # What the reader calls

    @property
    def is_read(self) -> bool:
        return not self._blocked

    def wait_for_memory(self) -> None:
        self._block(_MEMORY)

    def memory_is_there(self) -> None:
        # Not right here: who gives it back may have bytes in the scratch buffer.
        self._yield_turn()
        self._unblock(_MEMORY)

    def drop_for_memory(self) -> None:
        self._warn(
            "memory",
            f"{self._reader.buffered} bytes of unfinished or unread requests take memory for which "
            "others wait (queued.max.request.bytes)",
        )
        self.abort()
        self._reader.discard()

    # Executing requests

    def _execute(self) -> None:
        """Run the handler on every request that is here, within the limits, and write the answers
        together.
        """
        next_frame = self._reader.next_frame
        handler = self._handler
        waiting = self._waiting
        requests_left = self._limits.requests_per_turn
        first: Sequence[Part] | None = None
        joined: list[Part] = []
        self._executing = True
        try:
            while not self._blocked:
                frame = next_frame()
                if frame is None or (waiting and self._holds_back(frame)):
                    break
                answer = handler(self, frame)
                if answer is None:
                    pass
                elif isinstance(answer, Pending) or waiting:
                    self._wait(answer)
                elif first is None:
                    first = answer
                else:
                    joined = joined or [*first]
                    joined += answer
                    if len(joined) >= PARTS_PER_WRITE:
                        self._write(joined)
                        first, joined = None, []
                requests_left -= 1
                if not requests_left:
                    self._yield_turn()
        except Exception as error:
            self.refuse(error)
        if first is not None:
            self._write(joined or first)
        self._executing = False
        if self._blocked:
            self._leave_unread()
        if waiting and waiting[0].done:
            self._answer()

    def _leave_unread(self) -> None:
        """Keep what is not executed now, unless it never will be."""
        if self._blocked & _CLOSING:
            self._reader.discard()
        else:
            self._reader.park()
        self._close_if_done()

    def _holds_back(self, frame: memoryview) -> bool:
        """Returns whether a request has to wait for the answers to those before it."""
        follower = self._waiting[-1].follower
        if len(frame) >= _API_KEY.size and _API_KEY.unpack_from(frame)[0] == follower:
            return False
        self._reader.put_back(frame)
        self._block(_BEHIND)
        return True

    def _may_follow(self) -> None:
        """Look again at the request that is held back."""
        if self._blocked & _BEHIND:
            self._yield_turn()
            self._unblock(_BEHIND)

    def _wait(self, answer: Sequence[Part] | Pending) -> None:
        """Put an answer behind those that come before it."""
        if isinstance(answer, Pending):
            pending = answer
            pending._connection = self
        else:
            pending = Pending(self._waiting[-1].follower)
            pending.complete(answer)
        self._waiting.append(pending)
        self._waiting_bytes += _size_in_memory(pending._parts)
        if self._is_full():
            self._block(_FULL)

    def _is_full(self) -> bool:
        limits = self._limits
        return (
            len(self._waiting) >= limits.max_in_flight
            or self._waiting_bytes > limits.max_waiting_bytes
        )

    def _block(self, reason: int) -> None:
        self._blocked |= reason
        self._transport.pause_reading()

    def _unblock(self, reason: int) -> None:
        """Execute what was left lying, then read on, unless there is another reason not to."""
        self._blocked &= ~reason
        if self._blocked or self._executing:
            return
        if self._reader.buffered:
            self._execute()
        if not self._blocked:
            if self._eof:
                self._close_if_done()
            else:
                self._transport.resume_reading()

    def _yield_turn(self) -> None:
        if not self._blocked & _TURN:
            self._block(_TURN)
            self._transport.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._unblock(_TURN)

    # Answering

    def _completed(self, pending: Pending) -> None:
        """An answer has come for a request that was parked."""
        waiting = self._waiting
        self._waiting_bytes += _size_in_memory(pending._parts)
        if waiting[0] is not pending:
            if self._is_full():
                self._block(_FULL)
        elif self._executing or self._answer_scheduled:
            return
        elif len(waiting) == 1:
            self._answer()
        else:
            # Whatever completed this one probably completes the next ones as well: they go out
            # together.
            self._answer_scheduled = True
            self._transport.call_soon(self._answer)

    def _answer(self) -> None:
        """Write the answers that nothing before them holds back any more."""
        self._answer_scheduled = False
        waiting = self._waiting
        parts: list[Part] = []
        while waiting and waiting[0].done:
            answer = waiting.popleft()._parts
            self._waiting_bytes -= _size_in_memory(answer)
            parts += answer
        if parts:
            self.active = True
            self._write(parts)
        if self._blocked & (_FULL | _BEHIND):
            over = (0 if self._is_full() else _FULL) | (0 if waiting else _BEHIND)
            if self._blocked & over:
                self._yield_turn()  # not right here: executing may end here again, and again
                self._unblock(over)
        self._close_if_done()

    def _write(self, parts: Sequence[Part]) -> None:
        try:
            self._transport.write(parts)
        except Exception as error:
            # Not the peer's fault but a handler's: still, what the peer would get is not in order.
            self.refuse(error)

    def _drop_waiting(self) -> None:
        waiting = list(self._waiting)
        self._waiting.clear()
        for pending in waiting:
            pending._connection = None
            if not pending.done:
                pending.abandon()
        self._waiting_bytes = 0

    # The end

    def _close_if_done(self) -> None:
        """Close when there will be no further request and each one has its answer."""
        if self._waiting or self._executing:
            return
        if self._blocked & _CLOSING or (self._eof and not self._blocked):
            self._transport.close()

    def _warn(self, kind: str, reason: str) -> None:
        self._log_limiter.warning(
            f"{self.listener} {self.peer_host} {kind}",
            f"closing {self.peer} on listener {self.listener}: {reason}",
        )

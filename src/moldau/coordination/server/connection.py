"""One client of the served tree: frames in, answers and events out, in the order of the store."""

from __future__ import annotations

import logging
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.server import jute, limits, protocol
from moldau.coordination.server.jute import MalformedError, Reader
from moldau.coordination.server.protocol import Code, Op
from moldau.coordination.server.requests import Request, prepare
from moldau.coordination.store import WatchEvent
from moldau.machine.clock import Timer
from moldau.machine.network import Transport

if TYPE_CHECKING:
    from moldau.coordination.server.server import CoordinationServer

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65_536


class State(Enum):
    NEW = auto()
    """The first frame is awaited: a handshake, or a word of four letters."""
    OPENING = auto()
    """The session is being opened; what is sent meanwhile waits."""
    SERVING = auto()
    CLOSING = auto()
    """No further frame is read."""


class Connection:
    """A ``Receiver``; the server knows it by its session."""

    def __init__(self, server: CoordinationServer) -> None:
        self.state = State.NEW
        self.session: EmbeddedSession | None = None
        self.timer: Timer | None = None
        self.transport: Transport
        self.unanswered = 0
        self._server = server
        self._memory = memoryview(bytearray(_READ_BYTES))
        self._received = bytearray()
        self._to_send: list[bytes] = []
        self._unsent = 0
        self._awaits_much = False
        """Whether the last request, or its answer, may be large: no other is taken before it."""
        self._peer_is_slow = False
        self._is_paused = False
        self._zxid = 0

    # What the transport calls --------------------------------------------------------------------

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._memory[:nbytes]
        self._read_frames()

    def eof_received(self) -> bool:
        self._server.give_up_later(self)
        return False

    def pause_writing(self) -> None:
        self._peer_is_slow = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._peer_is_slow = False
        self._adjust_reading()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.state = State.CLOSING
        self._received.clear()
        self._to_send.clear()
        self._server.lost(self)

    # Frames in -----------------------------------------------------------------------------------

    def _read_frames(self) -> None:
        try:
            while not self._is_held and (frame := self._next_frame()) is not None:
                self._server.received += 1
                self._take(frame)
        except MalformedError as error:
            logger.warning("%s sends what is no request: %s", self.transport.peer, error)
            self.abort()
        except Exception:
            # Whatever a client sends, the others go on.
            logger.exception("A request of %s failed", self.transport.peer)
            self.abort()
        self._adjust_reading()

    @property
    def _is_held(self) -> bool:
        return bool(
            self.state in (State.OPENING, State.CLOSING)
            or self._peer_is_slow
            or self.unanswered >= limits.MOST_UNANSWERED
            or (self._awaits_much and self.unanswered)
            or self._unsent >= limits.MOST_UNSENT
        )

    def _adjust_reading(self) -> None:
        if self.state is State.CLOSING:
            return
        if self._is_held != self._is_paused:
            self._is_paused = not self._is_paused
            if self._is_paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()
                # Not now: this may be one of many answers that are being told.
                self.transport.call_soon(self._read_frames)

    def _next_frame(self) -> bytes | None:
        received = self._received
        if len(received) < jute.INT.size:
            return None
        if self.state is State.NEW:
            word = bytes(received[: jute.INT.size])
            if word.isalpha():
                self._answer_word(word)
                return None
        (length,) = jute.INT.unpack_from(received)
        if not 0 <= length <= limits.LARGEST_FRAME:
            raise MalformedError(f"a frame of {length} bytes")
        end = jute.INT.size + length
        if len(received) < end:
            return None
        frame = bytes(received[jute.INT.size : end])
        del received[:end]
        return frame

    def _answer_word(self, word: bytes) -> None:
        self.state = State.CLOSING
        self._received.clear()
        text = self._server.answer_word(word)
        if text:
            self.transport.write([text.encode()])
        self.transport.close()

    def _take(self, frame: bytes) -> None:
        if self.session is None:
            self.state = State.OPENING
            self._server.connect(self, protocol.read_connect(frame))
            return
        self._server.kept.hear(self.session.session_id)
        reader = Reader(frame)
        xid, op = reader.integer(), reader.integer()
        if op == Op.PING:
            self._answer(protocol.answer(protocol.PING_XID, self._zxid, Code.OK))
        elif op == Op.AUTH:
            self._authenticate(xid, reader)
        elif op == Op.CLOSE:
            self.unanswered += 1
            self.state = State.CLOSING
            self._server.store.submit(self.session.finish, partial(self._finished, xid))
        else:
            self.unanswered += 1
            self._awaits_much = op == Op.MULTI_READ or len(frame) > limits.LIGHT_FRAME
            request = Request(self._server.store, self.session, self.tell)
            prepared = prepare(request, op, reader)
            self._server.store.submit(
                prepared.work,
                partial(self._answered, xid),
                reads_only=prepared.reads_only,
                weight=len(frame),
            )

    def _authenticate(self, xid: int, reader: Reader) -> None:
        """There are no access control lists, so there is nothing to prove; a digest is welcome."""
        reader.integer()
        is_digest = reader.string() == "digest"
        reader.buffer()
        code = Code.OK if is_digest else Code.AUTH_FAILED
        self._answer(protocol.answer(xid, self._zxid, code))
        if not is_digest:
            self.close()

    # Answers out ---------------------------------------------------------------------------------

    def welcome(self, session: EmbeddedSession, frame: bytes) -> None:
        """The session is this connection's from now on."""
        if self.state is not State.OPENING:
            return
        self.session = session
        self.state = State.SERVING
        self._answer(frame)
        self._read_frames()

    def refuse(self, frame: bytes) -> None:
        """The session that was asked for is over."""
        if self.state is State.OPENING:
            self._answer(frame)
            self.close()

    def tell(self, event: WatchEvent) -> None:
        """A watch of this connection fires."""
        if self.state is State.SERVING:
            self._answer(protocol.event(event))

    def _answered(self, xid: int, body: Any, error: Exception | None, zxid: int) -> None:
        self.unanswered -= 1
        self._zxid = zxid
        code = Code.OK
        if error is not None:
            code, body = protocol.code_of(error), b""
            if code == Code.SYSTEM_ERROR:
                logger.warning("A request of %s failed: %s", self.transport.peer, error)
        self._answer(protocol.answer(xid, zxid, code, body))
        if self._is_paused:
            self._adjust_reading()

    def _finished(self, xid: int, _: Any, error: Exception | None, zxid: int) -> None:
        """The client has closed its session, or the end of it could not be written."""
        session = self.session
        assert session is not None
        code = Code.OK
        if error is None:
            self._server.kept.forget(session.session_id)
        else:
            session.not_ended()
            code = protocol.code_of(error)
        self._answer(protocol.answer(xid, zxid, code))
        self.close()

    def _answer(self, frame: bytes) -> None:
        """All that is told in one turn of the loop goes out at once."""
        if not self._to_send:
            self.transport.call_soon(self._flush)
        self._to_send += (jute.integer(len(frame)), frame)
        self._unsent += len(frame)
        self._server.sent += 1

    def _flush(self) -> None:
        if self._to_send:
            parts, self._to_send, self._unsent = self._to_send, [], 0
            self.transport.write([b"".join(parts)])
            self._adjust_reading()

    def close(self) -> None:
        """Say what is to be said, then hang up; also on who does not listen."""
        self.state = State.CLOSING
        self._flush()
        self._server.give_up_later(self)
        self.transport.close()

    def abort(self) -> None:
        self.state = State.CLOSING
        self.transport.abort()

"""The tree on a port, in ZooKeeper's protocol: for kazoo, for ZooKeeper's shell, for brokers.

The store does the work: it executes the requests of all clients in one order, writes what came
together with one sync, and tells answers and watch events in that order. A session outlives its
connections and this process (``KeptSessions``); its watches belong to one connection, and a client
leaves them again on the next.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Final

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.errors import CoordinationError, StoreUnavailableError
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordination.server import protocol
from moldau.coordination.server.connection import Connection, State
from moldau.coordination.server.protocol import PASSWORD_BYTES, ConnectRequest
from moldau.coordination.server.words import Figures, answer_word
from moldau.machine import Acceptor, Machine

logger = logging.getLogger(__name__)

SHORTEST_SESSION_MS: Final = 200
LONGEST_SESSION_MS: Final = 600_000
HANDSHAKE_S: Final = 10.0
"""For a new connection to say what it wants."""
MOST_CONNECTIONS: Final = 2000
MOST_SESSIONS: Final = 10_000
"""They outlive their connections, so these do not bound them."""
FAREWELL_S: Final = 10.0
"""For a client to take what it was told last; somebody who reads nothing would stay for ever."""
_BACKLOG: Final = 128
_ACCEPTS_PER_TURN: Final = 64
_ACCEPT_PAUSE_S: Final = 0.5
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CoordinationServer:
    """Serves a store that keeps sessions."""

    def __init__(self, machine: Machine, store: EmbeddedStore, host: str, port: int) -> None:
        self.store = store
        self.host = host
        self.port = port
        self.kept = KeptSessions(store, machine.clock)
        self.kept.on_expired = self._expired
        self.received = 0
        self.sent = 0
        self._network = machine.network
        self._clock = machine.clock
        self._secrets = machine.secrets
        self._acceptor: Acceptor | None = None
        self._connections: dict[Connection, None] = {}
        self._by_session: dict[int, Connection] = {}
        self._opening: set[asyncio.Task[None]] = set()

    def bind(self) -> None:
        """Reserve the address; ``port`` is the real one then. Raises OSError with a sentence."""
        self._acceptor = self._network.bind(self.host, self.port)
        self.port = self._acceptor.port

    def start(self) -> None:
        """Let clients in; binds first where that was not done."""
        if self._acceptor is None:
            self.bind()
        assert self._acceptor is not None
        self._acceptor.listen(_BACKLOG, self._accept)

    def close(self) -> None:
        """Hang up; the sessions go on when the store is served again."""
        self.kept.close()
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        for task in self._opening:
            task.cancel()
        for connection in list(self._connections):
            connection.close()

    # Connections ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                incoming = self._acceptor.accept() if self._acceptor is not None else None
                if incoming is None:
                    return
                if len(self._connections) >= MOST_CONNECTIONS:
                    logger.warning("%d clients are too many: one is refused", MOST_CONNECTIONS)
                    incoming.refuse()
                    continue
                connection = Connection(self)
                incoming.open(connection)
            except OSError as error:
                # Whoever came has gone; or waits on, and the loop would come back here at once.
                if error.errno in _OUT_OF_RESOURCES and self._acceptor is not None:
                    self._acceptor.pause()
                    self._clock.call_later(_ACCEPT_PAUSE_S, self._accept_again)
                return
            self._connections[connection] = None
            connection.timer = self._clock.call_later(HANDSHAKE_S, connection.abort)

    def _accept_again(self) -> None:
        if self._acceptor is not None:
            self._acceptor.resume()

    def give_up_later(self, connection: Connection) -> None:
        """The connection ends, within a time."""
        if connection in self._connections:
            if connection.timer is not None:
                connection.timer.cancel()
            connection.timer = self._clock.call_later(FAREWELL_S, connection.abort)

    def lost(self, connection: Connection) -> None:
        """The connection is gone, and the watches with it; the session waits for another."""
        self._connections.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()
        session = connection.session
        if session is not None and self._by_session.get(session.session_id) is connection:
            del self._by_session[session.session_id]
            self.store.watches.drop_session(session.session_id)

    # Sessions ------------------------------------------------------------------------------------

    def connect(self, connection: Connection, request: ConnectRequest) -> None:
        """A client wants a session, or its own back."""
        if connection.timer is not None:
            connection.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._connect(connection, request))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, connection: Connection, request: ConnectRequest) -> None:
        try:
            if request.session_id:
                self._resume(connection, request)
            else:
                await self._open(connection, request)
        except CoordinationError as error:
            logger.warning("No session for %s: %s", connection.transport.peer, error)
            connection.abort()

    async def _open(self, connection: Connection, request: ConnectRequest) -> None:
        if len(self.kept) >= MOST_SESSIONS:
            raise StoreUnavailableError(f"there are {MOST_SESSIONS} sessions already")
        password = self._secrets.randbytes(PASSWORD_BYTES)
        timeout_ms = min(max(request.timeout_ms, SHORTEST_SESSION_MS), LONGEST_SESSION_MS)
        session = await self.kept.open(timeout_ms, password)
        if connection.state is not State.OPENING:
            return  # the client has gone; its session will, too
        self._by_session[session.session_id] = connection
        connection.welcome(
            session,
            protocol.connected(
                timeout_ms,
                session.session_id,
                password,
                tells_read_only=request.tells_read_only,
            ),
        )

    def _resume(self, connection: Connection, request: ConnectRequest) -> None:
        session = self.kept.resume(request.session_id, request.password)
        if session is None or session.kept is None:
            over = protocol.connected(
                0, 0, bytes(PASSWORD_BYTES), tells_read_only=request.tells_read_only
            )
            connection.refuse(over)
            return
        if request.last_zxid_seen > self.store.zxid:
            logger.error(
                "%s has seen transaction %#x, but this store ends at %#x: it has lost changes, or "
                "the client means another one",
                connection.transport.peer,
                request.last_zxid_seen,
                self.store.zxid,
            )
            connection.abort()
            return
        before = self._by_session.pop(request.session_id, None)
        # Also without one: a watch that was left as its connection broke may have come behind it.
        self.store.watches.drop_session(request.session_id)
        if before is not None:
            before.abort()
        self._by_session[request.session_id] = connection
        connection.welcome(
            session,
            protocol.connected(
                session.kept.timeout_ms,
                request.session_id,
                request.password,
                tells_read_only=request.tells_read_only,
            ),
        )

    def _expired(self, session_id: int) -> None:
        connection = self._by_session.pop(session_id, None)
        if connection is not None:
            connection.close()

    # Words of four letters -----------------------------------------------------------------------

    def answer_word(self, word: bytes) -> str:
        return answer_word(
            word.decode(),
            Figures(
                received=self.received,
                sent=self.sent,
                connections=len(self._connections),
                unanswered=sum(connection.unanswered for connection in self._connections),
                sessions=len(self.kept),
                zxid=self.store.zxid,
                nodes=len(self.store.tree.nodes),
            ),
        )

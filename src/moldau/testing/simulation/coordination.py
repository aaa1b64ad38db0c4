"""A coordination store that brokers reach over a connection, as they do a ZooKeeper ensemble.

It is a node of its own, with its own disk. Sessions outlive the processes that opened them, until
their timeout; so does what a broker has registered. They outlive the store's process, too: it may
be killed, or lose power, and started again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from random import Random

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.errors import NoNodeError
from moldau.coordination.kept_sessions import KeptSessions
from moldau.coordination.storage import DiskStorage
from moldau.machine import Machine
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.remote_session import RemoteSession
from moldau.testing.simulation.simulation import Simulation


class SimulatedEnsemble:
    """The store. ``open`` is what a broker is handed to reach it."""

    def __init__(
        self, simulation: Simulation, name: str = "coordination", session_timeout: float = 6.0
    ) -> None:
        self.node: Node = simulation.node(name)
        self.random: Random = simulation.new_random(f"ensemble {name}")
        self.session_timeout = session_timeout
        """Seconds of silence after which a session is over."""
        self.slowest = 0.001
        """Seconds that a message may take."""
        self.store: EmbeddedStore
        self.kept: KeptSessions
        """Of the store's present life, or its last one."""
        self.context: Context
        """Of the store's process."""
        self._loop = simulation.loop
        self._recorder = simulation.recorder
        self._sessions: list[RemoteSession] = []
        self._passwords = 0
        self._isolated: dict[str, float] = {}
        """Until when which nodes do not reach the store."""
        self._late: dict[str, float] = {}
        """By how many seconds which nodes hear from the store late."""
        self.began_at = 0.0
        """When the store's present life began to listen."""
        self.on_silence: Callable[[RemoteSession], object] = lambda _session: None
        """Told of sessions that the store ended because it heard nothing."""

    # Lives ---------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.node.is_running

    async def start(self) -> None:
        """Begin a life, with the sessions of the one before, whose clients connect again."""
        machine = self.node.boot()
        await self.node.run(self._open(machine))
        assert self.node.process is not None
        self.context = self.node.process.context
        # Whoever has not noticed yet that the last life ended is told by the first packet.
        for session in self.sessions:
            session.lose_connection(self.delay())

    async def _open(self, machine: Machine) -> None:
        storage = DiskStorage(machine.disk, "/data")
        self.store = await EmbeddedStore.open(
            storage, machine.threads.run, machine.clock.now_ms, keeps_sessions=True
        )
        self.kept = KeptSessions(self.store, machine.clock)
        self.kept.on_expired = self._expired
        self.began_at = self._loop.time()

    def _expired(self, session_id: int) -> None:
        for session in self._sessions:
            if session.session_id == session_id and not session.was_ended:
                self.on_silence(session)

    def kill(self) -> None:
        """End the store's process as SIGKILL does; its clients see their connections close."""
        if self.node.is_running:
            self.node.kill()
            for session in self.sessions:
                session.lose_connection(self.delay())

    def power_cut(self) -> None:
        """End it with its machine; its clients hear nothing."""
        self.node.power_cut()
        for session in self.sessions:
            session.miss_the_store()

    # Clients -------------------------------------------------------------------------------------

    async def open(self, _machine: Machine, _directory: str) -> EnsembleClient:
        """Connect; satisfies ``OpenCoordination``."""
        return EnsembleClient(self)

    def session(self) -> RemoteSession:
        """Returns a new session of the process that asks."""
        self._passwords += 1
        session = RemoteSession(self, self._loop, self._passwords.to_bytes(16))
        self._sessions = [*self.sessions, session]
        self._recorder.record(session.client, "session", f"the cluster's {self._passwords}.")
        return session

    @property
    def sessions(self) -> list[RemoteSession]:
        """Those that are not over."""
        return [session for session in self._sessions if not session.is_over]

    def delay(self) -> float:
        return self.random.random() * self.slowest

    def lose_connections(self, seconds: float = 0.0) -> None:
        """Break all connections; they are made anew after so many seconds."""
        self._recorder.record(self.node.name, "disconnects", f"for {seconds:.3f} s")
        for session in self.sessions:
            session.lose_connection(seconds)

    def isolate(self, client: str, seconds: float) -> None:
        """Nothing gets through between a node and the store for so many seconds."""
        self._recorder.record(client, "cut off", "from", self.node.name, f"for {seconds:.3f} s")
        self._isolated[client] = self._loop.time() + seconds
        for session in self.sessions:
            if session.client == client:
                session.lose_connection(seconds)

    def delay_answers(self, client: str, seconds: float) -> None:
        """What the store tells a node comes so much later; what the node tells it does not."""
        self._late[client] = seconds

    def hear_in_time(self) -> None:
        """Everybody hears from the store at once."""
        self._late.clear()

    def heal(self) -> None:
        """Everybody reaches the store, and hears from it in time."""
        self._isolated.clear()
        self.hear_in_time()

    def lateness(self, client: str) -> float:
        return self._late.get(client, 0.0)

    def is_reached_by(self, client: str) -> bool:
        return self._loop.time() >= self._isolated.get(client, 0.0)

    async def delete(self, path: str) -> None:
        """An operator deletes a node, in the store's own shell."""

        async def work() -> None:
            session = self.store.session()
            with suppress(NoNodeError):
                await session.delete(path)
            await session.close()

        self._recorder.record(self.node.name, "deletes", path)
        await self.node.run(work())

    async def expire_sessions(self) -> None:
        """End all sessions, as after a long silence."""
        self._recorder.record(self.node.name, "expires sessions")
        for session in self.sessions:
            await session.expire()


class EnsembleClient:
    """A broker's way to the store."""

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble
        self._sessions: list[RemoteSession] = []

    def session(self) -> RemoteSession:
        session = self._ensemble.session()
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()

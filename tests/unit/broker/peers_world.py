"""Two brokers, as far as they talk to each other, on simulated hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from moldau.broker.peer_authentication import PeerAuthentication
from moldau.broker.peers import Peers, PeerSettings
from moldau.broker.private_apis import PrivateApis
from moldau.controller import BrokerUpdate, ReplicaError
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine, Part
from moldau.net import Listener, Pending, ServerConnection
from moldau.testing.simulation import Node, Simulation
from moldau.wire.api_versions import encode_api_versions_response
from moldau.wire.headers import FIRST_PRIVATE_KEY, read_request_header
from moldau.wire.private import PrivateApi

CLUSTER = "q7H3xVdlT8mEXTtMT1mXYw"
SECRET = "of the brokers"
LISTENER = "PLAINTEXT"
PORT = 9092


class OtherBroker:
    """Broker 2: answers what brokers ask, or what a test makes of it."""

    def __init__(self, node: Node, secret: str = SECRET, node_id: int = 2) -> None:
        self.node = node
        self.node_id = node_id
        self.secret = secret
        self.updates: list[BrokerUpdate] = []
        self.opened: list[ServerConnection] = []
        self.before_answer: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.handler: Callable[[ServerConnection, memoryview], Any] = self.handle
        self.private: PrivateApis

    def start(self) -> None:
        machine = self.node.boot()
        self.node.spawn(self._serve(machine))

    async def _serve(self, machine: Machine) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            tasks.add(asyncio.ensure_future(work))

        controller: Any = NoController()
        self.private = PrivateApis(
            LISTENER,
            PeerAuthentication(machine, CLUSTER, self.node_id, self.secret),
            self.apply,
            controller,
            spawn,
            machine.clock,
            failure_delay=0.1,
        )
        listener = Listener(
            LISTENER,
            "",
            PORT,
            lambda connection, frame: self.handler(connection, frame),
            network=machine.network,
            clock=machine.clock,
            on_open=self.opened.append,
        )
        listener.bind()
        listener.start()

    def handle(
        self, connection: ServerConnection, frame: memoryview
    ) -> Sequence[Part] | Pending | None:
        header, position = read_request_header(frame)
        if header.api_key < FIRST_PRIVATE_KEY:
            return [encode_api_versions_response(header.api_version, header.correlation_id)]
        return self.private.answer(header, connection, frame, position)

    async def apply(self, update: BrokerUpdate) -> Sequence[ReplicaError]:
        if self.before_answer is not None:
            await self.before_answer()
        self.updates.append(update)
        return [ReplicaError("t", update.controller_epoch, ErrorCode.KAFKA_STORAGE_ERROR)]


class NoController:
    def __getattr__(self, _name: str) -> Any:
        async def refuse(*_: object, **__: object) -> Any:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

        return refuse


class World:
    """Broker 1, whose peers a test uses, and broker 2."""

    def __init__(self, seed: int = 1, **other: Any) -> None:
        self.simulation = Simulation(seed)
        self.simulation.loop.time_limit = 600
        self.other = OtherBroker(self.simulation.node("other"), **other)
        self.machine: Machine
        self.peers: Peers

    def run(self, story: Callable[[], Coroutine[Any, Any, None]], secret: str = SECRET) -> None:
        async def live() -> None:
            self.other.start()
            node = self.simulation.node("here")
            self.machine = node.boot()
            settings = PeerSettings(
                1, CLUSTER, secret, LISTENER, connect_timeout=2.0, request_timeout=5.0
            )
            self.peers = Peers(self.machine, settings)
            try:
                await node.run(story())
            finally:
                self.peers.close()

        with self.simulation:
            self.simulation.run(live())

    @property
    def time(self) -> float:
        return self.simulation.time

    async def call(self, number: int = 0, *, epoch: int = 5, within: float = 3.0) -> Any:
        """Returns which partition failed: the number that was sent, if all is well."""
        (failed,) = await self.peers.call(
            registration(epoch),
            PrivateApi.BROKER_UPDATE,
            BrokerUpdate(1, number, epoch),
            answer=list[ReplicaError],
            within=within,
        )
        return failed.partition


def registration(
    epoch: int = 5, *, listener: str = LISTENER, node_id: int = 2
) -> BrokerRegistration:
    return BrokerRegistration(node_id, (Endpoint(listener, "other", PORT),), None, epoch)

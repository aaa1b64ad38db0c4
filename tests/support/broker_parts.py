"""The parts of a running broker, for tests that look inside."""

from __future__ import annotations

from moldau.broker.app import BrokerServer
from moldau.broker.broker import Broker
from moldau.broker.router import Router


class BrokerParts:
    """What test brokers of both kinds, with sockets and in memory, let one see."""

    server: BrokerServer

    @property
    def router(self) -> Router:
        router = self.server._listeners[0]._handler
        assert isinstance(router, Router)
        return router

    @property
    def parts(self) -> Broker:
        """The parts of the running broker."""
        return self.router._broker

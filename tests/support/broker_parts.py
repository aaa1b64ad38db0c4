"""What test brokers have in common: their life, and their parts for tests that look inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from moldau.broker.app import BrokerServer
from moldau.broker.broker import Broker
from moldau.broker.router import Router
from moldau.replication import Partition


class BrokerParts(ABC):
    """A broker in this process, with sockets or in memory."""

    server: BrokerServer

    @abstractmethod
    async def start(self) -> Self: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def router(self) -> Router:
        router = self.parts.listeners._handler
        assert isinstance(router, Router)
        return router

    @property
    def parts(self) -> Broker:
        """The parts of the running broker."""
        return self.server.broker

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.parts.partition(topic, index)

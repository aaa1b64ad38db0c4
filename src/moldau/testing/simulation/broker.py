"""A whole broker on a simulated machine, unmodified."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.broker.app import BrokerServer
from moldau.broker.ports import OpenCoordination, Ports, open_embedded
from moldau.config.values.broker import BrokerConfig
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.simulation import Simulation

log = logging.getLogger(__name__)

PORT = 9092


class SimulatedBroker:
    """A node that runs a broker; its files survive restarts, kills and, as far as synced, power
    cuts.
    """

    def __init__(
        self,
        simulation: Simulation,
        node_id: int = 1,
        settings: Mapping[str, object] | None = None,
        open_coordination: OpenCoordination = open_embedded,
    ) -> None:
        self.node: Node = simulation.node(f"broker-{node_id}")
        self.bootstrap_servers = f"{self.node.name}:{PORT}"
        self.server: BrokerServer | None = None
        self._open_coordination = open_coordination
        self._settings = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": "/data",
            **{name: str(value) for name, value in (settings or {}).items()},
        }

    @property
    def is_running(self) -> bool:
        return self.node.is_running

    async def start(self) -> None:
        """Begin a new life; returns when clients may come, raises what keeps them out."""
        machine = self.node.boot()
        node = self.node
        self.server = None
        try:
            server = BrokerServer(
                BrokerConfig.load(self._settings), Ports(machine, self._open_coordination)
            )
            server.on_all_offline = lambda: self._last_directory_failed(server)
            await node.run(server.start())
        except Exception:
            node.exit()
            raise
        self.server = server

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        if self.server is not None and self.node.is_running:
            try:
                await self.node.run(self.server.stop())
            finally:
                self.node.exit()

    def kill(self) -> None:
        self.node.kill()

    def power_cut(self) -> None:
        self.node.power_cut()

    def _last_directory_failed(self, server: BrokerServer) -> None:
        self.node.spawn(self._give_up(server))

    async def _give_up(self, server: BrokerServer) -> None:
        """What the process does when its last directory has failed."""
        try:
            await server.stop()
        except Exception:
            log.exception("could not stop as it should")
        finally:
            self.node.exit()

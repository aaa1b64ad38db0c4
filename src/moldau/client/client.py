"""One object to start from: a cluster connection and what can be done over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.closing import AsyncClosing
from moldau.client.cluster import Cluster
from moldau.client.settings import CommonSettings
from moldau.machine import Machine


class Client(AsyncClosing):
    """``async with Client("127.0.0.1:9092") as client: await client.admin.list_topics()``."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        request_timeout: float | None = None,
        config: Mapping[str, object] | None = None,
        machine: Machine | None = None,
    ) -> None:
        """``config`` has further settings, under Kafka's names."""
        settings: dict[str, object] = {**(config or {}), "bootstrap.servers": bootstrap_servers}
        if request_timeout is not None:
            settings["request.timeout.ms"] = round(request_timeout * 1000)
        self.cluster = Cluster(CommonSettings(settings), machine)
        self.admin = AsyncAdmin.over(self.cluster)

    async def start(self) -> None:
        """Reach the cluster; ``NoBrokersError`` when no address answers."""
        await self.cluster.start()

    async def close(self) -> None:
        await self.cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

"""Apache Kafka in the place of an in-process broker (``--target=kafka``), to prove the tests.

One Kafka serves all tests of a run; topics and settings are cleared away after each. A test that
looks inside the broker, restarts it or needs settings of its own is skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.support.apache_kafka import ApacheKafka
from tests.support.wire import WireClient

from moldau.wire.api import ApiKey

BROKER, DELETE = 4, 1
INSIDE = frozenset({"connections", "partition", "parts", "restart", "server"})
CHANGED_BY_TESTS = ("message.max.bytes",)


class KafkaInstead:
    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self._clients: list[WireClient] = []

    @property
    def address(self) -> str:
        return self._kafka.bootstrap

    @property
    def data_dir(self) -> Path:
        return self._kafka.data_dir

    def __getattr__(self, name: str) -> NoReturn:
        if name in INSIDE:
            pytest.skip(f"looks inside the broker ({name})")
        raise AttributeError(name)

    async def connect(self) -> WireClient:
        client = await WireClient.connect(self.address)
        client.patient = True
        self._clients.append(client)
        return client

    async def _topics(self, client: WireClient) -> list[str]:
        found = await client.call(ApiKey.METADATA, topics=None)
        return [topic.name for topic in found.topics if not topic.is_internal]

    async def clear(self) -> None:
        for client in self._clients:
            if not client.closed:
                await client.close()
        async with await WireClient.connect(self.address) as client:
            while names := await self._topics(client):
                listed: list[dict[str, Any]] = [{"name": name} for name in names]
                await client.call(ApiKey.DELETE_TOPICS, topics=listed, timeout=10_000)
            for resource in ("", "1"):
                configs = [
                    {"name": name, "config_operation": DELETE, "value": None}
                    for name in CHANGED_BY_TESTS
                ]
                await client.call(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS,
                    resources=[
                        {"resource_type": BROKER, "resource_name": resource, "configs": configs}
                    ],
                )

"""A broker in memory, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MemoryBroker]:
    """Parametrize indirectly for settings."""
    async with MemoryBroker(getattr(request, "param", None)) as broker:
        yield broker


@pytest.fixture
async def client(broker: MemoryBroker) -> WireClient:
    return await broker.connect()

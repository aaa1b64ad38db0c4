"""Fixtures for tests that run real processes, or whole brokers on the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.in_process import InProcessBroker
from tests.support.wire import WireClient

from moldau.testing.broker import MoldauProcess


@pytest.fixture
def moldau(
    moldau_broker: MoldauProcess,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The ``moldau`` command, talking to the session's broker."""
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", moldau_broker.bootstrap_servers)
    return CommandLine(moldau_broker.bootstrap_servers, capfd)


@pytest.fixture
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[InProcessBroker]:
    """A broker of the test's own, in this process; parametrize indirectly for settings."""
    async with InProcessBroker(tmp_path, getattr(request, "param", None)) as broker:
        yield broker


@pytest.fixture
async def client(broker: InProcessBroker) -> WireClient:
    """A connection to ``broker``."""
    return await broker.connect()

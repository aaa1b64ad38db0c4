"""Fixtures for tests that run real processes, or whole brokers on the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.apache_kafka import ApacheKafka
from tests.support.cli import CommandLine
from tests.support.in_process import InProcessBroker
from tests.support.kafka_instead import KafkaInstead
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


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture
async def broker(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[InProcessBroker | KafkaInstead]:
    """A broker of the test's own, in this process; parametrize indirectly for settings."""
    if request.config.getoption("--target") == "kafka":
        if hasattr(request, "param"):
            pytest.skip("needs settings of its own")
        instead = KafkaInstead(request.getfixturevalue("kafka"))
        yield instead
        await instead.clear()
        return
    async with InProcessBroker(tmp_path, getattr(request, "param", None)) as broker:
        yield broker


@pytest.fixture
async def client(broker: InProcessBroker) -> WireClient:
    """A connection to ``broker``."""
    return await broker.connect()

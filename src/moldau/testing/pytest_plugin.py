"""Fixtures for users' tests: a real broker per session and a fresh topic per test.

pytest imports this module in every run where Moldau is installed, so everything else is imported
inside the fixtures: who does not use them pays for an empty module.

    def test_greets(moldau_broker, moldau_topic):
        producer = Producer({"bootstrap.servers": moldau_broker.bootstrap_servers})
        producer.produce(moldau_topic, b"hello")
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import MoldauProcess
    from moldau.testing.cluster import MoldauCluster


@pytest.fixture(scope="session")
def moldau_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauProcess]:
    """A broker in a temporary directory on a free port, ended with the test session.

    It has ``bootstrap_servers``, ``host``, ``port`` and
    ``create_topic(name, partitions=1, **configs)``.
    """
    import shutil

    from moldau.testing.broker import MoldauProcess

    directory = tmp_path_factory.mktemp("moldau-broker", numbered=True)
    try:
        with MoldauProcess(directory) as broker:
            yield broker
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def moldau_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauCluster]:
    """Three brokers in a temporary directory on free ports, ended with the test session.

    It has ``bootstrap_servers``, ``create_topic(name, partitions=1, **configs)`` and ``brokers`` by
    id, each with ``kill()``, ``terminate()`` and ``start()``.
    """
    import shutil

    from moldau.testing.cluster import MoldauCluster

    directory = tmp_path_factory.mktemp("moldau-cluster", numbered=True)
    try:
        with MoldauCluster(directory) as cluster:
            yield cluster
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def moldau_topic(moldau_broker: MoldauProcess, request: pytest.FixtureRequest) -> str:
    """The name of a fresh topic of one partition; parametrize indirectly for more partitions."""
    import re
    import uuid

    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-.")[:80]
    topic = f"{test}-{uuid.uuid4().hex[:8]}"
    moldau_broker.create_topic(topic, partitions=getattr(request, "param", 1))
    return topic


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that failed with a broker shows the end of the broker's log."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    for name in ("moldau_broker", "moldau_cluster"):
        running: MoldauProcess | MoldauCluster | None = fixtures.get(name)
        if report.failed and running is not None:
            report.sections.append((f"{name.replace('_', ' ').capitalize()} log", running.logs()))
    return report

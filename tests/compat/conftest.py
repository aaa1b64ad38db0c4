"""The broker under test, and one instance of every client."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import Client
from tests.support.members.kinds import GROUP_SETTINGS
from tests.support.moldau import Moldau, ThreeMoldau
from tests.support.target import Target

ClientT = TypeVar("ClientT", bound=Client)


class ClientPool:
    """One instance of each client per broker: starting one may mean starting a JVM."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._clients: dict[type[Client], Client] = {}

    def get(self, kind: type[ClientT]) -> ClientT:
        if kind not in self._clients:
            self._clients[kind] = kind(self._bootstrap)
        return cast("ClientT", self._clients[kind])

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def make_target(config: pytest.Config, directory: Path, settings: dict[str, str]) -> Target:
    if config.getoption("--target") == "kafka":
        return ApacheKafka(directory, settings)
    if config.getoption("--target") == "cluster":
        return ThreeMoldau(directory, settings)
    return Moldau(directory, settings)


@pytest.fixture(scope="session")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """The broker that the clients of the whole session talk to."""
    broker = make_target(request.config, tmp_path_factory.mktemp("target"), GROUP_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def new_target(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[dict[str, str]], Target]]:
    """Starts brokers of a test's own, with settings of its own."""
    started: list[Target] = []

    def start(settings: dict[str, str]) -> Target:
        broker = make_target(request.config, tmp_path / f"broker-{len(started)}", settings)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture(scope="session")
def clients(target: Target) -> Iterator[ClientPool]:
    pool = ClientPool(target.bootstrap)
    yield pool
    pool.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in the test's report which cell of the compatibility table it fills."""
    report = yield
    marker = item.get_closest_marker("compat")
    if marker is not None and (report.when == "call" or report.failed):
        report.user_properties.append(("compat", [_fill(text, item) for text in marker.args]))
    return report


def _fill(text: str, item: pytest.Item) -> str:
    """Puts the test's parameters into a marker's text; a client class becomes its name."""
    call = getattr(item, "callspec", None)
    params: dict[str, Any] = call.params if call is not None else {}
    names = {
        key: value.name if isinstance(value, type) and issubclass(value, Client) else value
        for key, value in params.items()
    }
    return text.format(**names)

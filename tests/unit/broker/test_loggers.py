"""Levels of loggers, described and changed as settings of the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient
from tests.unit.broker.harness import lose_controller

from moldau.broker import loggers
from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND
PACKAGE, MODULE = "tests-of-loggers", "tests-of-loggers.module"


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """A logger in a package that has none itself; levels are as before afterwards."""
    before = logging.root.level
    logging.getLogger(MODULE)
    yield
    logging.root.setLevel(before)
    for name in (PACKAGE, MODULE):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def alter(client: WireClient, node: str, *changes: Alteration, **how: Any) -> Any:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for name, operation, value in changes
    ]
    resource = {
        "resource_type": ResourceType.BROKER_LOGGER,
        "resource_name": node,
        "configs": configs,
    }
    answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], **how)
    (response,) = answer.responses
    return response


async def levels(client: WireClient, *names: str, version: int = 4) -> dict[str, str]:
    resource = {
        "resource_type": ResourceType.BROKER_LOGGER,
        "resource_name": "1",
        "configuration_keys": names or None,
    }
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource])
    (result,) = answer.results
    assert result.error_code == 0
    assert not any(config.read_only for config in result.configs)
    assert {config.config_source for config in result.configs} == {6}
    return {config.name: config.value for config in result.configs}


@pytest.mark.parametrize("version", [1, 4])
async def test_every_logger_is_described_with_the_level_that_holds_for_it(
    client: WireClient, version: int
) -> None:
    logging.root.setLevel(logging.WARNING)
    described = await levels(client, version=version)
    assert next(iter(described)) == "root"
    assert described["root"] == described[PACKAGE] == described[MODULE] == "WARN"
    assert {"moldau", "moldau.broker.loggers"} <= described.keys()
    assert await levels(client, "root", "no.such") == {"root": "WARN"}


@pytest.mark.parametrize(("name", "number"), loggers.LEVELS.items())
async def test_a_level_takes_effect_at_once(client: WireClient, name: str, number: int) -> None:
    assert (await alter(client, "1", Alteration(PACKAGE, SET, name))).error_code == 0
    assert logging.getLogger(MODULE).getEffectiveLevel() == number
    assert await levels(client, PACKAGE, MODULE) == {PACKAGE: name, MODULE: name}


async def test_levels_can_be_changed_while_there_is_no_controller(
    broker: MemoryBroker, client: WireClient
) -> None:
    lose_controller(broker)
    assert (await alter(client, "1", Alteration(PACKAGE, SET, "TRACE"))).error_code == 0
    assert await levels(client, MODULE) == {MODULE: "TRACE"}


async def test_levels_between_those_of_kafka_have_the_next_name_below() -> None:
    for level, name in ((logging.CRITICAL + 1, "FATAL"), (logging.INFO + 1, "INFO"), (1, "TRACE")):
        logging.getLogger(PACKAGE).setLevel(level)
        (entry,) = loggers.describe_loggers([PACKAGE])
        assert entry.value == name


async def test_a_deleted_level_is_inherited_again(client: WireClient) -> None:
    changes = Alteration(PACKAGE, SET, "ERROR"), Alteration(MODULE, SET, "DEBUG")
    assert (await alter(client, "1", *changes)).error_code == 0
    checked = await alter(client, "1", Alteration(MODULE, DELETE, "INFO"), validate_only=True)
    assert checked.error_code == 0
    assert await levels(client, MODULE) == {MODULE: "DEBUG"}
    assert (await alter(client, "1", Alteration(MODULE, DELETE, "INFO"))).error_code == 0
    assert await levels(client, MODULE) == {MODULE: "ERROR"}


@pytest.mark.parametrize(
    ("node", "change", "code", "message"),
    [
        ("2", ("root", SET, "INFO"), 42, "Unexpected node id. Expected 1, but received 2"),
        ("", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: "),
        ("x", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: x"),
        ("1", ("no.such", SET, "INFO"), 40, "Logger no.such does not exist!"),
        ("1", ("no.such", DELETE, None), 40, "Logger no.such does not exist!"),
        ("1", ("root", DELETE, None), 42, "Removing the log level of the root logger is not"),
        (
            "1",
            ("root", APPEND, "INFO"),
            42,
            "APPEND operation is not allowed for the BROKER_LOGGER",
        ),
        ("1", ("root", 9, "INFO"), 42, "Unknown type 9 operation is not allowed"),
        ("1", ("root", SET, None), 42, "Null value not supported for"),
        ("1", ("root", SET, "info"), 40, "Cannot set the log level of root to info as it is not a"),
        (
            "1",
            ("root", SET, "OFF"),
            40,
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WA",
        ),
    ],
)
async def test_refusals_are_kafkas_and_change_nothing(
    client: WireClient,
    node: str,
    change: tuple[str, int, str | None],
    code: int,
    message: str,
) -> None:
    before = await levels(client)
    good = Alteration(PACKAGE, SET, "TRACE")
    response = await alter(client, node, good, Alteration(*change))
    assert response.error_code == code
    assert message in response.error_message
    assert await levels(client) == before


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("", "Broker id must not be empty"),
        ("x", "Broker id must be an integer, but it is: x"),
        ("2", "Unexpected broker id, expected 1 but received 2"),
    ],
)
async def test_only_a_brokers_own_loggers_are_described(
    client: WireClient, node: str, message: str
) -> None:
    resource = {"resource_type": ResourceType.BROKER_LOGGER, "resource_name": node}
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, resources=[resource])
    (result,) = answer.results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)

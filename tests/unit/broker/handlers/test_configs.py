"""Settings: the controller changes them, the broker tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient
from tests.unit.broker.harness import lose_controller

from moldau.broker.alter_configs import MOST_SETTINGS
from moldau.broker.controller_port import ControllerClient
from moldau.config.altering import operations
from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.config.types import ResourceType
from moldau.controller import ConfigAlteration
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
BROKER_LOGGER, CLIENT_METRICS = ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS
SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND


def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in configs
        ],
    }


async def alter(client: WireClient, *resources: dict[str, Any], **how: Any) -> list[ErrorCode]:
    answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=list(resources), **how)
    return [response.error_code for response in answer.responses]


async def described(client: WireClient, kind: int, name: str, key: str) -> Any:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": [key]}]
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources)
    (result,) = answer.results
    assert result.error_code == 0, result
    (config,) = result.configs
    return config.value


async def test_settings_of_each_kind_are_changed_and_told(client: WireClient) -> None:
    await client.create_topic("t")
    assert await alter(
        client,
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
        resource(BROKER, "1", ("log.retention.ms", SET, "6")),
        resource(BROKER, "", ("log.retention.ms", SET, "7")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        resource(CLIENT_METRICS, "m", ("interval.ms", SET, "500")),
    ) == [0, 0, 0, 0, 0]
    assert await described(client, TOPIC, "t", "retention.ms") == "5"
    assert await described(client, BROKER, "1", "log.retention.ms") == "6"
    assert await described(client, BROKER, "", "log.retention.ms") == "7"
    assert await described(client, GROUP, "g", "consumer.session.timeout.ms") == "50000"
    assert await described(client, CLIENT_METRICS, "m", "interval.ms") == "500"
    assert await described(client, CLIENT_METRICS, "m", "metrics") == ""
    assert await alter(client, resource(TOPIC, "t", ("retention.ms", DELETE, None))) == [0]
    assert await described(client, TOPIC, "t", "retention.ms") == "6"


async def test_replacing_forgets_what_is_not_named(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t", configs={"retention.ms": "5", "segment.bytes": "1048576"})
    resources = [
        {
            "resource_type": TOPIC,
            "resource_name": "t",
            "configs": [{"name": "flush.messages", "value": "3"}],
        }
    ]
    checked = await client.call(ApiKey.ALTER_CONFIGS, resources=resources, validate_only=True)
    assert checked.responses[0].error_code == 0
    assert broker.parts.configs.topic_overrides("t").keys() == {"retention.ms", "segment.bytes"}
    altered = await client.call(ApiKey.ALTER_CONFIGS, resources=resources)
    assert altered.responses[0].error_code == 0
    assert broker.parts.configs.topic_overrides("t") == {"flush.messages": "3"}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (resource(TOPIC, "nope", ("retention.ms", SET, "5")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "no spaces"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(TOPIC, "t", ("retention.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "", ("retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("retention.ms", 9, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "2", ("log.retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "one", ("log.retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("log.dirs", SET, "/x")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "5")), ErrorCode.INVALID_CONFIG),
        (resource(CLIENT_METRICS, "", ("metrics", SET, "*")), ErrorCode.INVALID_REQUEST),
        (resource(CLIENT_METRICS, "m", ("metrics", APPEND, "a")), ErrorCode.INVALID_CONFIG),
        (resource(3, "m", ("metrics", SET, "*")), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_refused_change_leaves_the_others_alone(
    client: WireClient, changed: dict[str, Any], code: ErrorCode
) -> None:
    await client.create_topic("t")
    await client.create_topic("other")
    good = resource(TOPIC, "other", ("flush.messages", SET, "3"))
    assert await alter(client, changed, good) == [code, 0]
    assert await described(client, TOPIC, "other", "flush.messages") == "3"


async def test_a_resource_named_twice_is_refused_both_times(client: WireClient) -> None:
    await client.create_topic("t")
    assert await alter(
        client,
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
        resource(CLIENT_METRICS, "t", ("metrics", SET, "*")),
        resource(TOPIC, "t", ("flush.messages", SET, "3")),
    ) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("api", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
@pytest.mark.parametrize("same", [False, True])
async def test_a_resource_with_more_settings_than_there_are_is_refused_without_a_look(
    client: WireClient, api: ApiKey, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def looked(changes: Sequence[object]) -> None:
        looks.append(len(changes))

    monkeypatch.setattr(operations, "_check_names", looked)
    await client.create_topic("t")
    await client.create_topic("u")
    looks.clear()
    many = [("retention.ms" if same else f"s{n}", SET, "1") for n in range(MOST_SETTINGS + 1)]
    resources = [
        resource(TOPIC, "t", *many),
        resource(BROKER, "1", *many),
        resource(TOPIC, "u", ("retention.ms", SET, "5")),
    ]
    if api is ApiKey.ALTER_CONFIGS:
        for config in [config for each in resources for config in each["configs"]]:
            del config["config_operation"]
    answer = await client.call(api, resources=resources)
    refused = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in answer.responses] == [refused, refused, ErrorCode.NONE]
    assert f"at most {MOST_SETTINGS} settings" in answer.responses[0].error_message
    assert set(looks) == {1}, "nobody looks at thousands of names"


async def test_a_setting_named_twice_is_refused(client: WireClient) -> None:
    await client.create_topic("t")
    twice = [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]
    assert await alter(client, resource(TOPIC, "t", *twice)) == [ErrorCode.INVALID_REQUEST]


async def test_replacing_is_not_for_loggers(client: WireClient) -> None:
    logger = {"resource_type": BROKER_LOGGER, "resource_name": "1"}
    answer = await client.call(
        ApiKey.ALTER_CONFIGS, resources=[{**logger, "configs": [{"name": "root", "value": "INFO"}]}]
    )
    (response,) = answer.responses
    assert response.error_code is ErrorCode.INVALID_REQUEST
    assert response.error_message == "Unknown resource type 8"


@pytest.mark.parametrize("name", ["1" * 5000, "01", "2"])
@pytest.mark.parametrize("kind", [BROKER, BROKER_LOGGER])
async def test_what_names_another_broker_is_refused_alone(
    client: WireClient, kind: int, name: str
) -> None:
    await client.create_topic("t")
    assert await alter(
        client,
        resource(kind, name, ("root", SET, "INFO")),
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
    ) == [ErrorCode.INVALID_REQUEST, 0]
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    (result,) = (await client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources)).results
    assert result.error_code is ErrorCode.INVALID_REQUEST


async def test_levels_of_loggers_that_were_changed_are_told_so_without_a_controller(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    lose_controller(broker)
    level = resource(BROKER_LOGGER, "1", ("moldau.broker", SET, "FATAL"))
    other = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    assert await alter(client, level, other) == [0, ErrorCode.NOT_CONTROLLER]
    assert await described(client, BROKER_LOGGER, "1", "moldau.broker") == "FATAL"
    back = resource(BROKER_LOGGER, "1", ("moldau.broker", DELETE, None))
    assert await alter(client, back) == [0]


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 3000 + ")" * 3000, "["])
async def test_selectors_that_cannot_be_are_refused(client: WireClient, pattern: str) -> None:
    match = resource(CLIENT_METRICS, "m", ("match", SET, f"client_id={pattern}"))
    assert await alter(client, match) == [ErrorCode.INVALID_CONFIG]


async def test_changes_made_at_the_same_time_do_not_lose_each_other(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    controller: ControllerClient = broker.parts.controller
    names = ["retention.ms", "flush.messages", "max.message.bytes", "segment.ms", "flush.ms"]

    async def set_one(name: str) -> None:
        change = ConfigAlteration(
            resource_type=TOPIC, resource_name="t", changes=[Alteration(name, SET, "1000")]
        )
        (result,) = await controller.alter_configs([change])
        assert result.error is ErrorCode.NONE

    await asyncio.gather(*map(set_one, names))
    assert broker.parts.configs.topic_overrides("t") == dict.fromkeys(names, "1000")


async def test_lists_grow_and_shrink(client: WireClient) -> None:
    await client.create_topic("t")
    assert await alter(client, resource(TOPIC, "t", ("cleanup.policy", APPEND, "compact"))) == [0]
    assert await described(client, TOPIC, "t", "cleanup.policy") == "delete,compact"
    taken = ("cleanup.policy", AlterOperation.SUBTRACT, "delete")
    assert await alter(client, resource(TOPIC, "t", taken)) == [0]
    assert await described(client, TOPIC, "t", "cleanup.policy") == "compact"


async def test_what_cannot_be_described_says_why(client: WireClient) -> None:
    resources = [
        {"resource_type": TOPIC, "resource_name": "nope", "configuration_keys": None},
        {"resource_type": TOPIC, "resource_name": "..", "configuration_keys": None},
        {"resource_type": BROKER, "resource_name": "7", "configuration_keys": None},
        {"resource_type": GROUP, "resource_name": "", "configuration_keys": None},
        {"resource_type": CLIENT_METRICS, "resource_name": "", "configuration_keys": None},
        {"resource_type": 3, "resource_name": "m", "configuration_keys": None},
    ]
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources)
    assert [result.error_code for result in answer.results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        *[ErrorCode.INVALID_REQUEST] * 4,
    ]


async def test_resources_with_settings_are_listed(client: WireClient) -> None:
    await client.create_topic("t")
    await alter(client, resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")))
    await alter(client, resource(CLIENT_METRICS, "m", ("metrics", SET, "*")))
    await alter(client, resource(CLIENT_METRICS, "gone", ("metrics", SET, "*")))
    await alter(client, resource(CLIENT_METRICS, "gone", ("metrics", DELETE, None)))

    async def listed(version: int, *kinds: int) -> set[tuple[int, str]]:
        answer = await client.call(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)
        assert answer.error_code == 0
        return {(found.resource_type, found.resource_name) for found in answer.config_resources}

    metrics = (CLIENT_METRICS, "m")
    brokers = {(BROKER, "1"), (BROKER_LOGGER, "1")}
    assert await listed(1) == {(TOPIC, "t"), *brokers, (GROUP, "g"), metrics}
    assert await listed(1, GROUP) == {(GROUP, "g")}
    often = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[TOPIC] * 1000)
    assert len(often.config_resources) == 1
    assert await listed(0) == await listed(1, CLIENT_METRICS) == {metrics}
    unknown = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[3])
    assert unknown.error_code is ErrorCode.UNSUPPORTED_VERSION

"""Settings over the wire: described, changed, and in force without a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.in_process import InProcessBroker
from tests.support.kafka_instead import KafkaInstead
from tests.support.wire import WireClient, one_batch

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_CONFIG, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5


async def describe(
    client: WireClient, kind: int, name: str, keys: list[str] | None = None, **how: Any
) -> Any:
    answer = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        **how,
    )
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def value_of(client: WireClient, topic: str, key: str) -> tuple[str | None, int]:
    """Value and source."""
    (config,) = (await describe(client, TOPIC, topic, [key])).configs
    return config.value, config.config_source


async def change(
    client: WireClient, kind: int, name: str, *changes: tuple[str, int, str | None], **how: Any
) -> tuple[ErrorCode, str | None]:
    answer = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, operation, value in changes
                ],
            }
        ],
        **how,
    )
    (response,) = answer.responses
    return error_from(response.error_code), response.error_message


async def replace(
    client: WireClient, kind: int, name: str, settings: dict[str, str | None], **how: Any
) -> tuple[ErrorCode, str | None]:
    answer = await client.call(
        ApiKey.ALTER_CONFIGS,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in settings.items()],
            }
        ],
        **how,
    )
    (response,) = answer.responses
    return error_from(response.error_code), response.error_message


DONE = (ErrorCode.NONE, None)


# Describing --------------------------------------------------------------------------------------


async def test_a_topics_settings_with_their_sources(client: WireClient) -> None:
    await client.create_topic("t", configs={"retention.ms": "5"})
    result = await describe(client, TOPIC, "t")
    assert result.error_code == 0
    found = {config.name: config for config in result.configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", TOPIC_CONFIG)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == (
        "delete",
        DEFAULT,
    )
    assert not found["retention.ms"].synonyms
    assert found["retention.ms"].documentation is None
    assert not any(config.is_sensitive or config.read_only for config in result.configs)


async def test_synonyms_and_documentation_on_request(client: WireClient) -> None:
    await client.create_topic("t", configs={"segment.bytes": "2000000"})
    result = await describe(
        client,
        TOPIC,
        "t",
        ["segment.bytes", "no.such"],
        include_synonyms=True,
        include_documentation=True,
    )
    (config,) = result.configs
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("segment.bytes", "2000000", TOPIC_CONFIG),
        ("log.segment.bytes", "1073741824", DEFAULT),
    ]
    assert config.documentation


async def test_a_brokers_settings(broker: InProcessBroker, client: WireClient) -> None:
    result = await describe(client, BROKER, "1", ["log.dirs", "node.id", "log.retention.hours"])
    found = {config.name: config for config in result.configs}
    assert (found["log.dirs"].value, found["log.dirs"].config_source) == (
        str(broker.data_dir),
        STATIC_BROKER,
    )
    assert found["log.dirs"].read_only
    assert (found["log.retention.hours"].value, found["log.retention.hours"].config_source) == (
        "168",
        DEFAULT,
    )


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no spaces", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_is_told(
    client: WireClient, kind: int, name: str, code: ErrorCode
) -> None:
    result = await describe(client, kind, name)
    assert (error_from(result.error_code), result.configs) == (code, ())


async def test_resources_with_settings_are_listed(client: WireClient) -> None:
    await client.create_topic("t")
    answer = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[TOPIC, BROKER])
    found = {(r.resource_type, r.resource_name) for r in answer.config_resources}
    assert (answer.error_code, found) == (0, {(TOPIC, "t"), (BROKER, "1")})
    unknown = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[99])
    assert unknown.error_code is ErrorCode.UNSUPPORTED_VERSION
    everything = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[])
    assert (TOPIC, "t") in {(r.resource_type, r.resource_name) for r in everything.config_resources}
    metrics = await client.call(ApiKey.LIST_CONFIG_RESOURCES, 0)
    assert (metrics.error_code, metrics.config_resources) == (0, ())


# Changing ----------------------------------------------------------------------------------------


async def test_single_settings_are_set_and_deleted(client: WireClient) -> None:
    await client.create_topic("t", configs={"retention.ms": "5"})
    assert await change(client, TOPIC, "t", ("segment.bytes", SET, "2000000")) == DONE
    assert await value_of(client, "t", "segment.bytes") == ("2000000", TOPIC_CONFIG)
    assert await value_of(client, "t", "retention.ms") == ("5", TOPIC_CONFIG)
    assert await change(client, TOPIC, "t", ("retention.ms", DELETE, None)) == DONE
    assert await value_of(client, "t", "retention.ms") == ("604800000", DEFAULT)


async def test_lists_grow_and_shrink(client: WireClient) -> None:
    await client.create_topic("t")
    assert await change(client, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == DONE
    value, _ = await value_of(client, "t", "cleanup.policy")
    assert value == "delete,compact"
    assert await change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == DONE
    assert await value_of(client, "t", "cleanup.policy") == ("compact", TOPIC_CONFIG)


async def test_replacing_forgets_what_is_not_named(client: WireClient) -> None:
    await client.create_topic("t", configs={"retention.ms": "5", "segment.bytes": "2000000"})
    assert await replace(client, TOPIC, "t", {"retention.ms": "6"}) == DONE
    assert await value_of(client, "t", "retention.ms") == ("6", TOPIC_CONFIG)
    assert await value_of(client, "t", "segment.bytes") == ("1073741824", DEFAULT)


@pytest.mark.parametrize("how", [change, replace], ids=["incremental", "replacing"])
async def test_validate_only_checks_and_changes_nothing(client: WireClient, how: Any) -> None:
    await client.create_topic("t")
    good: Any = ("retention.ms", SET, "6") if how is change else {"retention.ms": "6"}
    bad: Any = ("retention.ms", SET, "soon") if how is change else {"retention.ms": "soon"}
    assert await how(client, TOPIC, "t", good, validate_only=True) == DONE
    code, message = await how(client, TOPIC, "t", bad, validate_only=True)
    assert code is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "retention.ms" in message
    assert await value_of(client, "t", "retention.ms") == ("604800000", DEFAULT)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "t", [("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            ErrorCode.INVALID_REQUEST,
        ),
        (TOPIC, "nowhere", [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", [("log.dirs", SET, "/x")], ErrorCode.INVALID_REQUEST),
        (BROKER, "1", [("message.max.bytes", SET, "many")], ErrorCode.INVALID_REQUEST),
        (BROKER, "7", [("message.max.bytes", SET, "1")], ErrorCode.INVALID_REQUEST),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_changes_that_cannot_be_are_refused_as_a_whole(
    broker: InProcessBroker,
    client: WireClient,
    kind: int,
    name: str,
    changes: list[tuple[str, int, str | None]],
    code: ErrorCode,
) -> None:
    await client.create_topic("t")
    good = ("segment.bytes", SET, "2000000")
    found, message = await change(client, kind, name, *changes, *([good] if kind == TOPIC else []))
    if found is ErrorCode.UNKNOWN_SERVER_ERROR and isinstance(broker, KafkaInstead):
        pytest.skip("Kafka trips over an unknown operation")
    assert found is code
    assert message
    assert await value_of(client, "t", "segment.bytes") == ("1073741824", DEFAULT)


async def test_concurrent_changes_of_one_topic_do_not_lose_each_other(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    settings = {
        "retention.ms": "5",
        "segment.bytes": "2000000",
        "max.message.bytes": "9000",
        "flush.ms": "77",
        "index.interval.bytes": "1234",
    }
    clients = [await broker.connect() for _ in settings]
    outcomes = await asyncio.gather(
        *(
            change(one, TOPIC, "t", (key, SET, value))
            for one, (key, value) in zip(clients, settings.items(), strict=True)
        )
    )
    assert outcomes == [DONE] * len(settings)
    for key, value in settings.items():
        assert await value_of(client, "t", key) == (value, TOPIC_CONFIG)


# In force ----------------------------------------------------------------------------------------


async def settle(broker: InProcessBroker) -> None:
    """Kafka answers before its brokers know; Moldau's do when the answer comes."""
    if isinstance(broker, KafkaInstead):
        await asyncio.sleep(0.5)


async def test_a_topics_new_limit_holds_from_the_next_append_on(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    assert (await client.produce("t", one_batch(b"x" * 1000))).error_code == 0
    await change(client, TOPIC, "t", ("max.message.bytes", SET, "500"))
    await settle(broker)
    refused = await client.produce("t", one_batch(b"x" * 1000))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    await change(client, TOPIC, "t", ("max.message.bytes", DELETE, None))
    await settle(broker)
    assert (await client.produce("t", one_batch(b"x" * 1000))).error_code == 0


@pytest.mark.parametrize("resource", ["1", ""], ids=["this broker", "all brokers"])
async def test_a_brokers_new_limit_holds_for_topics_without_their_own(
    broker: InProcessBroker, client: WireClient, resource: str
) -> None:
    await client.create_topic("plain")
    await client.create_topic("own", configs={"max.message.bytes": "5000"})
    changed = await change(client, BROKER, resource, ("message.max.bytes", SET, "500"))
    assert changed == DONE
    await settle(broker)
    refused = await client.produce("plain", one_batch(b"x" * 1000))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await client.produce("own", one_batch(b"x" * 1000))).error_code == 0
    await client.create_topic("later")
    refused = await client.produce("later", one_batch(b"x" * 1000))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    source = DYNAMIC_BROKER if resource else DYNAMIC_DEFAULT
    (config,) = (await describe(client, BROKER, "1", ["message.max.bytes"])).configs
    assert (config.value, config.config_source) == ("500", source)
    assert await change(client, BROKER, resource, ("message.max.bytes", DELETE, None)) == DONE
    await settle(broker)
    assert (await client.produce("plain", one_batch(b"x" * 1000))).error_code == 0


async def test_new_connection_limits_hold_for_the_next_connections(
    broker: InProcessBroker, client: WireClient
) -> None:
    changed = await change(client, BROKER, "", ("max.connections.per.ip", SET, "1"))
    assert changed == DONE
    refused = await broker.connect()
    assert await refused.wait_closed_by_peer() == b""
    assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0, "who is in stays in"

    override = ("max.connections.per.ip.overrides", SET, "127.0.0.1:2")
    assert await change(client, BROKER, "", override) == DONE
    second = await broker.connect()
    assert (await second.call(ApiKey.API_VERSIONS, 0)).error_code == 0

    assert await change(client, BROKER, "", (override[0], DELETE, None)) == DONE
    assert await change(client, BROKER, "", ("max.connections.per.ip", DELETE, None)) == DONE
    assert await change(client, BROKER, "", ("max.connections", SET, "2")) == DONE
    third = await broker.connect()
    waiting = asyncio.create_task(third.call(ApiKey.API_VERSIONS, 0))
    assert (await second.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert not waiting.done()
    assert await change(client, BROKER, "", ("max.connections", SET, "3")) == DONE
    assert (await waiting).error_code == 0


async def test_settings_survive_a_restart(broker: InProcessBroker) -> None:
    client = await broker.connect()
    await client.create_topic("t", configs={"max.message.bytes": "500"})
    await client.create_topic("plain")
    await change(client, BROKER, "1", ("message.max.bytes", SET, "300"))
    await broker.restart()
    client = await broker.connect()
    assert await value_of(client, "t", "max.message.bytes") == ("500", TOPIC_CONFIG)
    assert await value_of(client, "plain", "max.message.bytes") == ("300", DYNAMIC_BROKER)
    for topic in ("t", "plain"):
        refused = await client.produce(topic, one_batch(b"x" * 1000))
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE

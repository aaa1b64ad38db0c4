"""Changing settings of topics, brokers and groups: what both ways of altering have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from moldau.broker.config_resources import check_broker_name, check_topic_name
from moldau.broker.context import Broker
from moldau.config.altering.validation import (
    validate_broker_update,
    validate_group_configs,
    validate_topic_configs,
)
from moldau.config.option import AnyOption
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.topic import TopicOptions
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

Settings = Mapping[str, str]
Change = Callable[[Mapping[str, AnyOption], Settings], dict[str, str]]
"""From a table of options and the stored settings to the settings that should be stored."""


class Resource(Protocol):
    """What both requests say of a resource."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=Resource)
A = TypeVar("A")


async def alter_each(
    broker: Broker,
    resources: Sequence[R],
    change: Callable[[R], Change],
    answer: type[A],
    *,
    validate_only: bool,
) -> tuple[A, ...]:
    """Change the settings of each resource, if they may be changed so; one ``answer`` for each."""
    answers = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        code, message = await _alter(broker, kind, name, change(resource), validate_only)
        answers.append(
            make(
                answer,
                error_code=code,
                error_message=message,
                resource_type=kind,
                resource_name=name,
            )
        )
    return tuple(answers)


async def _alter(
    broker: Broker, resource_type: int, name: str, change: Change, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        async with broker.altering_configs:
            if resource_type == ResourceType.TOPIC:
                await _alter_topic(broker, name, change, validate_only)
            elif resource_type == ResourceType.BROKER:
                await _alter_broker(broker, name, change, validate_only)
            elif resource_type == ResourceType.GROUP:
                await _alter_group(broker, name, change, validate_only)
            else:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"resource type {resource_type} is not served"
                )
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


async def _alter_topic(broker: Broker, name: str, change: Change, validate_only: bool) -> None:
    check_topic_name(name)
    if name not in broker.metadata.topics:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )
    settings = change(TopicOptions.table, broker.configs.topic_overrides(name))
    validate_topic_configs(settings, broker.config)
    if not validate_only:
        await broker.controller.alter_topic_configs(name, settings)


async def _alter_broker(broker: Broker, name: str, change: Change, validate_only: bool) -> None:
    if name:
        check_broker_name(broker.node_id, name)
    config = broker.config
    stored = config.broker_dynamic if name else config.cluster_dynamic
    settings = change(BrokerOptions.table, stored)
    validate_broker_update(config, settings, per_broker=bool(name))
    if not validate_only:
        await broker.controller.alter_broker_configs(name, settings)


async def _alter_group(broker: Broker, name: str, change: Change, validate_only: bool) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    settings = change(GroupOptions.table, broker.configs.group_overrides(name))
    validate_group_configs(settings, broker.config)
    if not validate_only:
        await broker.controller.alter_group_configs(name, settings)

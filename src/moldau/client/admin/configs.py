"""Reading and changing settings of topics and brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import ConfigChange, ConfigResource, Outcome
from moldau.config.describing.entry import ConfigEntry, ConfigSource, ConfigSynonym
from moldau.config.types import ConfigType, ResourceType
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def list_config_resources(
    caller: Caller, types: Collection[ResourceType]
) -> list[ConfigResource]:
    request = make(
        ListConfigResourcesRequest, resource_types=tuple(sorted(int(kind) for kind in types))
    )
    answer = await caller.any_broker(ApiKey.LIST_CONFIG_RESOURCES, request)
    check(answer.error_code)
    return sorted(
        ConfigResource(ResourceType(resource.resource_type), resource.resource_name)
        for resource in answer.config_resources
        if resource.resource_type in _RESOURCE_TYPES
    )


async def describe_configs(
    caller: Caller, resources: Sequence[ConfigResource], synonyms: bool, documentation: bool
) -> list[Outcome[list[ConfigEntry]]]:
    """The settings of each resource. A broker knows its own, so its questions go to it."""
    outcomes: dict[ConfigResource, Outcome[list[ConfigEntry]]] = {}
    for node_id, group in _by_broker(resources).items():
        request = make(
            DescribeConfigsRequest,
            resources=tuple(
                make(
                    DescribeConfigsResource,
                    resource_type=int(resource.type),
                    resource_name=resource.name,
                    configuration_keys=None,
                )
                for resource in group
            ),
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        answer = await _ask(caller, node_id, ApiKey.DESCRIBE_CONFIGS, request)
        for result in answer.results:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            outcomes[resource] = Outcome(
                resource.name,
                sorted((_read_entry(entry) for entry in result.configs), key=lambda e: e.name),
                error_of(result.error_code, result.error_message),
            )
    return [outcomes[resource] for resource in resources]


async def alter_configs(
    caller: Caller,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    validate_only: bool,
) -> list[Outcome[ConfigResource]]:
    """Apply changes; each resource changes as a whole or not at all."""
    outcomes: dict[ConfigResource, Outcome[ConfigResource]] = {}
    for node_id, group in _by_broker(list(changes)).items():
        request = make(
            IncrementalAlterConfigsRequest,
            resources=tuple(_alteration(resource, changes[resource]) for resource in group),
            validate_only=validate_only,
        )
        answer = await _ask(caller, node_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        for result in answer.responses:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            error = error_of(result.error_code, result.error_message)
            outcomes[resource] = Outcome(resource.name, resource, error)
    return [outcomes[resource] for resource in changes]


def _by_broker(resources: Sequence[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Resources by the broker that must be asked; None where any broker will do."""
    groups: dict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        own = resource.type in _OF_ONE_BROKER and resource.name
        groups[int(resource.name) if own else None].append(resource)
    return groups


async def _ask(caller: Caller, node_id: int | None, api: ApiKey, request: Any) -> Any:
    if node_id is not None:
        return await caller.broker(node_id, api, request)
    return await caller.controller(api, request, _codes)


def _codes(answer: Any) -> list[int]:
    results = answer.results if hasattr(answer, "results") else answer.responses
    return [result.error_code for result in results]


def _alteration(resource: ConfigResource, changes: Sequence[ConfigChange]) -> AlterConfigsResource:
    return make(
        AlterConfigsResource,
        resource_type=int(resource.type),
        resource_name=resource.name,
        configs=tuple(
            make(
                AlterableConfig,
                name=change.name,
                config_operation=int(change.operation),
                value=change.value,
            )
            for change in changes
        ),
    )


def _read_entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.config_source),
        ConfigType(entry.config_type) if entry.config_type in _TYPES else ConfigType.UNKNOWN,
        entry.read_only,
        entry.is_sensitive,
        tuple(ConfigSynonym(s.name, s.value, _source(s.source)) for s in entry.synonyms),
        entry.documentation,
    )


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in _SOURCES else ConfigSource.UNKNOWN


_OF_ONE_BROKER = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})
_RESOURCE_TYPES = frozenset(int(kind) for kind in ResourceType)
_TYPES = frozenset(int(kind) for kind in ConfigType)
_SOURCES = frozenset(int(source) for source in ConfigSource)

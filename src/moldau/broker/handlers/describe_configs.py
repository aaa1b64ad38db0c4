"""DescribeConfigs (key 32, versions 1-4): settings of topics, brokers, groups and more; sources.

Behaviour: a broker resource is this broker's id, or empty for what was set at run time for all
brokers. A group or a client metrics subscription has settings whether or not it exists. The loggers
of this broker are described with the level that holds for each.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from moldau.broker.broker import Broker
from moldau.broker.config_resources import check_described_broker, check_described_loggers
from moldau.broker.loggers import describe_loggers
from moldau.broker.request import Request
from moldau.config.describing.broker import describe_broker, describe_cluster_defaults
from moldau.config.describing.client_metrics import describe_client_metrics
from moldau.config.describing.entry import ConfigEntry
from moldau.config.describing.group import describe_group
from moldau.config.describing.topic import describe_topic
from moldau.config.types import ResourceType
from moldau.controller.topic_names import check_name
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    return make(
        DescribeConfigsResponse,
        results=tuple(
            _describe(request.broker, resource, request.body) for resource in request.body.resources
        ),
    )


def error_answer(
    request: Request[DescribeConfigsRequest], error: KafkaError
) -> DescribeConfigsResponse:
    return make(
        DescribeConfigsResponse,
        results=tuple(_failed(resource, error) for resource in request.body.resources),
    )


def _describe(
    broker: Broker, resource: DescribeConfigsResource, body: DescribeConfigsRequest
) -> DescribeConfigsResult:
    try:
        entries = _entries(broker, resource)
    except KafkaError as error:
        return _failed(resource, error)
    return make(
        DescribeConfigsResult,
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_config(entry, body) for entry in entries),
    )


def _failed(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return make(
        DescribeConfigsResult,
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def _entries(broker: Broker, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name = resource.resource_name
    wanted = frozenset(resource.configuration_keys or ()) or None
    kind = int(resource.resource_type)
    if kind == ResourceType.TOPIC:
        check_name(name)
        if name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(broker.config, broker.configs.topic_overrides(name), wanted)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_cluster_defaults(broker.config, wanted)
        check_described_broker(broker.node_id, name)
        return describe_broker(broker.config, wanted)
    if kind == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(broker.config, broker.configs.group_overrides(name), wanted)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        return describe_client_metrics(broker.configs.client_metrics.get(name, {}), wanted)
    if kind == ResourceType.BROKER_LOGGER:
        check_described_loggers(broker.node_id, name)
        return describe_loggers(wanted)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _config(entry: ConfigEntry, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if body.include_synonyms else ()
    return make(
        DescribeConfigsResourceResult,
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            make(
                DescribeConfigsSynonym,
                name=synonym.name,
                value=synonym.value,
                source=synonym.source,
            )
            for synonym in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if body.include_documentation else None,
    )

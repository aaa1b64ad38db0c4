"""DescribeConfigs (key 32, versions 1-4): settings of topics, brokers, groups; their sources.

Behaviour: a broker resource is this broker's id, or empty for what was set at run time for all
brokers. A group has settings whether or not it exists.
Known deviations: broker loggers and client metrics are not served and answered with
INVALID_REQUEST.
"""

from __future__ import annotations

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from moldau.broker.config_resources import check_broker_name, check_topic_name
from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.config.describing.broker import describe_broker, describe_cluster_defaults
from moldau.config.describing.entry import ConfigEntry
from moldau.config.describing.group import describe_group
from moldau.config.describing.topic import describe_topic
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return make(
        DescribeConfigsResponse,
        throttle_time=NO_THROTTLE,
        results=tuple(
            _describe(context.broker, resource, request) for resource in request.resources
        ),
    )


def _describe(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    entries: list[ConfigEntry] = []
    code, message = ErrorCode.NONE, None
    try:
        entries = _entries(broker, resource)
    except KafkaError as error:
        code, message = error.code, error.message
    return make(
        DescribeConfigsResult,
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_answer(entry, request) for entry in entries),
    )


def _entries(broker: Broker, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name = resource.resource_name
    wanted = resource.configuration_keys or None
    kind = int(resource.resource_type)
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(broker.config, broker.configs.topic_overrides(name), wanted)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_cluster_defaults(broker.config, wanted)
        check_broker_name(broker.node_id, name)
        return describe_broker(broker.config, wanted)
    if kind == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(broker.config, broker.configs.group_overrides(name), wanted)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} is not served"
    )


def _answer(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
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
        documentation=entry.documentation if request.include_documentation else None,
    )

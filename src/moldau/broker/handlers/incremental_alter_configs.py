"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings (KIP-339).

Behaviour: set, delete, and append to or subtract from lists. Each resource succeeds or fails as a
whole; changes take effect without a restart. Levels of loggers (KIP-412) are not stored. New
listeners are open before the answer; one that cannot be opened is INVALID_REQUEST.
Known deviations: an operation that does not exist is INVALID_REQUEST, not UNKNOWN_SERVER_ERROR.
A listener with another address moves there at once, and ``advertised.listeners`` can be altered.
"""

from __future__ import annotations

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from moldau.broker.alter_configs import alter_configs, resource_results, too_many_settings
from moldau.broker.request import Request
from moldau.config.altering.operations import Alteration
from moldau.controller import ConfigAlteration, ConfigResult
from moldau.errors import KafkaError
from moldau.wire.make import make


async def handle(
    request: Request[IncrementalAlterConfigsRequest],
) -> IncrementalAlterConfigsResponse:
    resources = request.body.resources
    alterations: list[ConfigAlteration | ConfigResult] = [
        too_many_settings(resource.configs)
        or ConfigAlteration(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            changes=[
                Alteration(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
        )
        for resource in resources
    ]
    results = await alter_configs(
        request.broker, alterations, validate_only=request.body.validate_only
    )
    responses = resource_results(AlterConfigsResourceResponse, resources, results)
    return make(IncrementalAlterConfigsResponse, responses=responses)


def error_answer(
    request: Request[IncrementalAlterConfigsRequest], error: KafkaError
) -> IncrementalAlterConfigsResponse:
    resources = request.body.resources
    results = [error] * len(resources)
    responses = resource_results(AlterConfigsResourceResponse, resources, results)
    return make(IncrementalAlterConfigsResponse, responses=responses)

"""AlterConfigs (key 33, versions 0-2): replace all settings of a resource.

Behaviour: what is not named goes back to its default. IncrementalAlterConfigs is the better way,
and the only one for broker loggers.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

from moldau.broker.alter_configs import alter_configs, resource_results, too_many_settings
from moldau.broker.request import Request
from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.controller import ConfigAlteration, ConfigResult
from moldau.errors import KafkaError
from moldau.wire.make import make


async def handle(request: Request[AlterConfigsRequest]) -> AlterConfigsResponse:
    resources = request.body.resources
    alterations: list[ConfigAlteration | ConfigResult] = [
        too_many_settings(resource.configs)
        or ConfigAlteration(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            changes=[
                Alteration(config.name, AlterOperation.SET, config.value)
                for config in resource.configs
            ],
            replaces_all=True,
        )
        for resource in resources
    ]
    results = await alter_configs(
        request.broker, alterations, validate_only=request.body.validate_only
    )
    responses = resource_results(AlterConfigsResourceResponse, resources, results)
    return make(AlterConfigsResponse, responses=responses)


def error_answer(request: Request[AlterConfigsRequest], error: KafkaError) -> AlterConfigsResponse:
    resources = request.body.resources
    results = [error] * len(resources)
    responses = resource_results(AlterConfigsResourceResponse, resources, results)
    return make(AlterConfigsResponse, responses=responses)

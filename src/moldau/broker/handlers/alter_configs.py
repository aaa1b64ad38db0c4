"""AlterConfigs (key 33, versions 0-2): replace all settings of a topic, broker or group.

Behaviour: what is not named goes back to its default. IncrementalAlterConfigs is the better way.
Known deviations: broker loggers and client metrics are not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

from moldau.broker.alter_configs import alter_each
from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.config.altering.operations import apply_replacement
from moldau.config.option import AnyOption
from moldau.wire.make import make


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    responses = await alter_each(
        context.broker,
        request.resources,
        lambda resource: partial(_change, resource),
        AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return make(AlterConfigsResponse, throttle_time=NO_THROTTLE, responses=responses)


def _change(
    resource: AlterConfigsResource, _options: Mapping[str, AnyOption], _stored: Mapping[str, str]
) -> dict[str, str]:
    return apply_replacement([(config.name, config.value) for config in resource.configs])

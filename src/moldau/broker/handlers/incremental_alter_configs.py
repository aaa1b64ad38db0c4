"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings (KIP-339).

Behaviour: set, delete, and append to or subtract from lists. Each resource succeeds or fails as a
whole; changes take effect without a restart.
Known deviations: broker loggers and client metrics are not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from moldau.broker.alter_configs import alter_each
from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.config.altering.operations import Alteration, apply_incremental
from moldau.config.option import AnyOption
from moldau.wire.make import make


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    responses = await alter_each(
        context.broker,
        request.resources,
        lambda resource: partial(_change, resource),
        AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return make(IncrementalAlterConfigsResponse, throttle_time=NO_THROTTLE, responses=responses)


def _change(
    resource: AlterConfigsResource, options: Mapping[str, AnyOption], stored: Mapping[str, str]
) -> dict[str, str]:
    changes = [Alteration(c.name, c.config_operation, c.value) for c in resource.configs]
    return apply_incremental(options, stored, changes)

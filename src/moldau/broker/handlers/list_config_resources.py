"""ListConfigResources (key 74, versions 0-1): which resources have settings (KIP-1142).

Behaviour: version 0 asks for client metrics only; version 1 names the types, none meaning all that
are served.
Groups are listed that have settings of their own.
Known deviations: client metrics do not exist, so this type lists nothing.
"""

from __future__ import annotations

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode
from moldau.wire.make import make

LISTABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if context.header.api_version == 0:
        types: tuple[int, ...] = (ResourceType.CLIENT_METRICS,)
    else:
        types = tuple(request.resource_types) or LISTABLE
    unknown = [kind for kind in types if kind not in LISTABLE]
    resources = [] if unknown else [r for kind in types for r in _list(context.broker, kind)]
    return make(
        ListConfigResourcesResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.NONE,
        config_resources=tuple(resources),
    )


def _list(broker: Broker, kind: int) -> list[ConfigResource]:
    names: list[str] = []
    if kind == ResourceType.TOPIC:
        names = sorted(broker.metadata.topics)
    elif kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        names = [str(node_id) for node_id in sorted(broker.metadata.brokers)]
    elif kind == ResourceType.GROUP:
        names = sorted(broker.configs.configured_groups)
    return [make(ConfigResource, resource_name=name, resource_type=kind) for name in names]

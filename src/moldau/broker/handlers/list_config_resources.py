"""ListConfigResources (key 74, versions 0-1): which resources have settings (KIP-1142).

Behaviour: version 0 asks for client metrics only; version 1 names the types, none meaning all that
are served.
Groups are listed that have settings of their own; so are subscriptions to clients' metrics.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

LISTABLE = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


async def handle(request: Request[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
    if request.version == 0:
        types: tuple[int, ...] = (ResourceType.CLIENT_METRICS,)
    else:
        types = tuple(dict.fromkeys(request.body.resource_types)) or LISTABLE
    if any(kind not in LISTABLE for kind in types):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return make(
        ListConfigResourcesResponse,
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            [
                make(ConfigResource, resource_name=name, resource_type=kind)
                for kind in types
                async for name in in_turns(_names(request.broker, kind))
            ]
        ),
    )


def error_answer(
    _request: Request[ListConfigResourcesRequest], error: KafkaError
) -> ListConfigResourcesResponse:
    return make(ListConfigResourcesResponse, error_code=error.code, config_resources=())


def _names(broker: Broker, kind: int) -> list[str]:
    if kind == ResourceType.TOPIC:
        return sorted(broker.metadata.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(broker.metadata.brokers)]
    if kind == ResourceType.GROUP:
        return sorted(broker.configs.configured_groups)
    return sorted(broker.configs.client_metrics)

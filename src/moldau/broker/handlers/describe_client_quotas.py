"""DescribeClientQuotas (key 48, versions 0-1): quotas of users, clients and addresses (KIP-546).

Behaviour: a filter names types of entities; strict, it leaves out entities that have others, too.
Only what was set is described, not what follows from it for a client. Entities come in order.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuota
from moldau.quotas.filter import ClientQuotaFilter, ClientQuotaFilterComponent
from moldau.wire.make import make


async def handle(
    request: Request[DescribeClientQuotasRequest],
) -> DescribeClientQuotasResponse:
    # One after another: a filter with thousands of components is refused at the second of a kind.
    components = (
        ClientQuotaFilterComponent(component.entity_type, component.match_type, component.match)
        for component in request.body.components
    )
    matches = ClientQuotaFilter(components, request.body.strict).matcher()
    return make(
        DescribeClientQuotasResponse,
        error_code=ErrorCode.NONE,
        error_message=None,
        entries=tuple(
            [
                _entry(quota)
                async for quota in in_turns(request.broker.client_quotas.ordered())
                if matches(quota.entity)
            ]
        ),
    )


def _entry(described: ClientQuota) -> EntryData:
    return make(
        EntryData,
        entity=tuple(
            make(EntityData, entity_type=kind, entity_name=name)
            for kind, name in described.entity.entries
        ),
        values=tuple(
            make(ValueData, key=key, value=value) for key, value in sorted(described.quotas.items())
        ),
    )


def error_answer(
    _request: Request[DescribeClientQuotasRequest], error: KafkaError
) -> DescribeClientQuotasResponse:
    return make(
        DescribeClientQuotasResponse,
        error_code=error.code,
        error_message=error.message,
        entries=None,
    )

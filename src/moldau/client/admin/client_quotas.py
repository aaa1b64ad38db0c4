"""Quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import Outcome
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity
from moldau.quotas.filter import ClientQuotaFilter
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def describe_client_quotas(caller: Caller, wanted: ClientQuotaFilter) -> list[ClientQuota]:
    request = make(
        DescribeClientQuotasRequest,
        components=tuple(
            make(
                ComponentData,
                entity_type=component.entity_type,
                match_type=int(component.match_type),
                match=component.match,
            )
            for component in wanted.components
        ),
        strict=wanted.strict,
    )
    answer = await caller.any_broker(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    check(answer.error_code, answer.error_message)
    return [
        ClientQuota(
            ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}),
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries
    ]


async def alter_client_quotas(
    caller: Caller,
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    validate_only: bool,
) -> list[Outcome[ClientQuotaEntity]]:
    request = make(
        AlterClientQuotasRequest,
        entries=tuple(
            make(
                EntryData,
                entity=tuple(
                    make(EntityData, entity_type=kind, entity_name=name)
                    for kind, name in entity.entries
                ),
                ops=tuple(
                    make(OpData, key=key, value=float(value or 0), remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for entity, quotas in changes.items()
        ),
        validate_only=validate_only,
    )
    answer = await caller.controller(
        ApiKey.ALTER_CLIENT_QUOTAS,
        request,
        lambda answer: [entry.error_code for entry in answer.entries],
    )
    errors = {
        ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): (
            error_of(entry.error_code, entry.error_message)
        )
        for entry in answer.entries
    }
    return [Outcome(str(entity), entity, errors[entity]) for entity in changes]

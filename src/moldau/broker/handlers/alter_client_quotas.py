"""AlterClientQuotas (key 49, versions 0-1): set and remove quotas, or check whether they could be
(KIP-546).

Behaviour: each entity succeeds or fails alone. Brokers know of the change when the answer comes.
Known deviations: an ``ip`` entity is an address; Kafka takes names of hosts, too, and resolves them
once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as RequestEntry
from kio.schema.alter_client_quotas.v1.response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

from moldau.broker.request import Request
from moldau.controller import ClientQuotaAlteration, ClientQuotaResult
from moldau.errors import KafkaError, invalid_request
from moldau.quotas.entity import ClientQuotaEntity
from moldau.wire.make import make

MAX_PARTS = 100
"""Of an entity; Kafka knows three types of them, and of each there can be one."""


async def handle(request: Request[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    if any(len(entry.entity) > MAX_PARTS for entry in request.body.entries):
        raise invalid_request(f"An entity has at most {MAX_PARTS} parts.")
    return _response(
        await request.controller.alter_client_quotas(
            [
                ClientQuotaAlteration(
                    entity=_entity(entry),
                    changes=[(op.key, None if op.remove else op.value) for op in entry.ops],
                )
                for entry in request.body.entries
            ],
            validate_only=request.body.validate_only,
        )
    )


def error_answer(
    request: Request[AlterClientQuotasRequest], error: KafkaError
) -> AlterClientQuotasResponse:
    return _response(
        ClientQuotaResult(entity=_entity(entry), error=error.code, message=error.message)
        for entry in request.body.entries
    )


def _entity(entry: RequestEntry) -> ClientQuotaEntity:
    return ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity})


def _response(results: Iterable[ClientQuotaResult]) -> AlterClientQuotasResponse:
    return make(
        AlterClientQuotasResponse,
        entries=tuple(
            make(
                EntryData,
                error_code=result.error,
                error_message=result.message,
                entity=tuple(
                    make(EntityData, entity_type=kind, entity_name=name)
                    for kind, name in result.entity.entries
                ),
            )
            for result in results
        ),
    )

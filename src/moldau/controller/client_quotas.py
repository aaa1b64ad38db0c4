"""Duties that clients ask for: quotas of users, clients and addresses."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller import writes
from moldau.controller.active import ActiveController
from moldau.controller.requests import ClientQuotaAlteration, ClientQuotaResult
from moldau.coordination import paths, znodes
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.store import Create, Delete, Op, SetData
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity, canonical_entity
from moldau.quotas.validation import QUOTA_KEYS, check_address, check_entity, check_quota


class ClientQuotaAdmin:
    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._context = active.context

    async def alter(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool
    ) -> list[ClientQuotaResult]:
        """Returns one result per entity; what is valid is written together."""
        errors: dict[ClientQuotaEntity, KafkaError | None] = {}
        changed: list[ClientQuota] = []
        altered: set[ClientQuotaEntity] = set()
        for alteration in alterations:
            entity = self._stored_entity(alteration.entity)
            try:
                if entity in altered:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Ignoring duplicate entity {alteration.entity}",
                    )
                altered.add(entity)
                quotas = self._altered(entity, alteration.changes)
                if quotas != self._context.client_quotas.get(entity, {}):
                    changed.append(ClientQuota(entity, quotas))
                errors[alteration.entity] = None
            except KafkaError as error:
                errors[alteration.entity] = error
        if changed and not validate_only:
            await self._write(changed)
        return [
            ClientQuotaResult(entity=entity)
            if error is None
            else ClientQuotaResult(entity=entity, error=error.code, message=error.message)
            for entity, error in errors.items()
        ]

    def _stored_entity(self, entity: ClientQuotaEntity) -> ClientQuotaEntity:
        """An address has one spelling, unless another one was stored already."""
        return entity if entity in self._context.client_quotas else canonical_entity(entity)

    def _altered(
        self, entity: ClientQuotaEntity, alterations: Sequence[tuple[str, float | None]]
    ) -> dict[str, float]:
        """Returns the quotas that the entity will have."""
        check_entity(entity)
        quotas = dict(self._context.client_quotas.get(entity, {}))
        changes = dict(alterations)
        if len(changes) < len(alterations):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Duplicate quota key not updating quota for this entity {entity}",
            )
        for key, value in changes.items():
            if value is None:
                quotas.pop(key, None)
            else:
                check_address(entity)
                check_quota(entity, key, value)
                quotas[key] = value
        return quotas

    async def _write(self, changed: Sequence[ClientQuota]) -> None:
        active, context = self._active, self._context
        ops = [writes.fence(context), *await self._ops(changed)]
        active.raise_errors(await active.write([ops]))
        for change in changed:
            if change.quotas:
                context.client_quotas[change.entity] = change.quotas
            else:
                del context.client_quotas[change.entity]
        active.client_quotas_changed(changed)
        active.sender.send(client_quotas=changed)

    async def _ops(self, changed: Sequence[ClientQuota]) -> list[Op]:
        """A user's node is also the parent of those of its clients: it stays as long as they are
        there, or anything in it that is no quota.
        """
        wanted: dict[str, None] = {}
        for change in changed:
            path = paths.client_quotas(change.entity)
            parents = paths.client_quota_parents(change.entity)
            wanted |= dict.fromkeys((*parents, path, f"{path}/clients"))
        nodes = await self._active.store.get_many(list(wanted))
        present = {
            path: node[0] for path, node in zip(wanted, nodes, strict=True) if node is not None
        }
        ops: list[Op] = []
        for change in changed:
            path, quotas = paths.client_quotas(change.entity), change.quotas
            others = _others(present.get(path, b""), path)
            if not quotas and not others and f"{path}/clients" not in present:
                ops.append(Delete(path))
                present.pop(path, None)
                continue
            parents = paths.client_quota_parents(change.entity)
            missing = [parent for parent in parents if parent not in present]
            ops += [Create(parent) for parent in missing]
            data = znodes.encode_quotas(quotas, others)
            ops.append(SetData(path, data) if path in present else Create(path, data))
            present |= {**dict.fromkeys(missing, b""), path: data}
        return ops


def _others(data: bytes, path: str) -> dict[str, str]:
    """Returns what a node holds besides quotas: Kafka kept SCRAM credentials in a user's."""
    try:
        config = znodes.decode_config(data, path)
    except StoreCorruptError:  # told when it was loaded
        return {}
    return {key: value for key, value in config.items() if key not in QUOTA_KEYS}

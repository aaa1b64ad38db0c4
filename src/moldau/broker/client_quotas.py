"""The client quotas in force on this broker: what the controller has sent, by what each limits."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.quotas.entity import IP, ClientQuota, ClientQuotaEntity, canonical_entity
from moldau.quotas.manager import ClientQuotaManager, address_levels
from moldau.quotas.meters import Rate, Window
from moldau.quotas.validation import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)


class ClientQuotas:
    __slots__ = (
        "_entities",
        "connections",
        "fetch",
        "has_failed",
        "is_metering",
        "produce",
        "request",
        "throttled_ms",
    )

    def __init__(self, window: Window) -> None:
        self._entities: dict[ClientQuotaEntity, dict[str, float]] = {}
        self.is_metering = False
        """Whether any user or client has a quota. While nobody has, requests pay for nothing but
        looking here.
        """
        self.has_failed = False
        """Whether counting has failed, which is told once."""
        self.produce = ClientQuotaManager(PRODUCER_BYTE_RATE, Rate, window)
        self.fetch = ClientQuotaManager(CONSUMER_BYTE_RATE, Rate, window)
        self.request = ClientQuotaManager(REQUEST_PERCENTAGE, Rate, window)
        self.connections = ClientQuotaManager(
            CONNECTION_CREATION_RATE, Rate, window, address_levels
        )
        self.throttled_ms: dict[str, int] = {}
        """How long clients had to hold back so far, by what their quota limits."""

    def update(self, changes: Sequence[ClientQuota], *, full: bool) -> None:
        """Take over quotas; ``full``: nobody else has any."""
        if not (changes or full):
            return
        if full:
            for entity in list(self._entities):
                self._set(ClientQuota(entity, {}))
        for change in changes:
            self._set(change)
        self.is_metering = any(IP not in entity.as_dict() for entity in self._entities)

    def _set(self, change: ClientQuota) -> None:
        entity, quotas = change.entity, change.quotas
        if quotas:
            self._entities[entity] = quotas
        else:
            self._entities.pop(entity, None)
        for manager in (self.produce, self.fetch, self.request):
            manager.update(entity, quotas)
        self.connections.update(canonical_entity(entity), quotas)

    def ordered(self) -> list[ClientQuota]:
        """Returns the quotas that were set, ordered by entity."""
        return [
            ClientQuota(entity, self._entities[entity])
            for entity in sorted(self._entities, key=_order)
        ]


def _order(entity: ClientQuotaEntity) -> list[tuple[str, str]]:
    return [(kind, name or "") for kind, name in entity.entries]

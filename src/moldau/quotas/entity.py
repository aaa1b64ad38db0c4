"""Whom a quota is set for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, Self

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """A user, a client id, both, or an IP address; a name of None stands for all that have no quota
    of their own (``<default>``).
    """

    entries: tuple[tuple[str, str | None], ...]
    """Pairs of type and name, ordered by type: equal entities compare equal."""

    @classmethod
    def of(cls, entries: Mapping[str, str | None]) -> Self:
        return cls(tuple(sorted(entries.items())))

    def as_dict(self) -> dict[str, str | None]:
        return dict(self.entries)

    def __str__(self) -> str:
        names = ", ".join(f"{kind}={name or '<default>'}" for kind, name in self.entries)
        return f"ClientQuotaEntity(entries={{{names}}})"


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """All that is set for an entity; nothing, if its quotas were removed."""

    entity: ClientQuotaEntity
    quotas: dict[str, float]


def canonical_address(address: str) -> str:
    """Returns the one spelling of an address that its quota is kept under."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address  # in a simulation, hosts have names
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)


def canonical_entity(entity: ClientQuotaEntity) -> ClientQuotaEntity:
    """Returns the entity with the one spelling of its address."""
    address = entity.as_dict().get(IP)
    if address is None:
        return entity
    return ClientQuotaEntity.of({**entity.as_dict(), IP: canonical_address(address)})

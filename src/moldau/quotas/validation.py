"""Which quotas may be set for whom, as Kafka's ``ClientQuotaControlManager`` decides."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from math import inf
from typing import Final

from moldau.errors import invalid_request
from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
_FRACTION: Final = 1e-6

_USER_AND_CLIENT_KEYS: Final[Mapping[str, int | None]] = {
    PRODUCER_BYTE_RATE: _MAX_LONG,
    CONSUMER_BYTE_RATE: _MAX_LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The largest value of keys that take whole numbers only; None for the others."""
_IP_KEYS: Final[Mapping[str, int | None]] = {CONNECTION_CREATION_RATE: _MAX_INT}

QUOTA_KEYS: Final = (*_USER_AND_CLIENT_KEYS, *_IP_KEYS)


def check_entity(entity: ClientQuotaEntity) -> None:
    """Raises INVALID_REQUEST for what no quota can be set for."""
    if not entity.entries:
        raise invalid_request("Invalid empty client quota entity")
    for kind, name in entity.entries:
        if kind not in (USER, CLIENT_ID, IP):
            raise invalid_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise invalid_request(f"Empty {kind} not supported")
    entries = entity.as_dict()
    if IP in entries and len(entries) > 1:
        raise invalid_request(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )


def check_address(entity: ClientQuotaEntity) -> None:
    """Raises INVALID_REQUEST for an address that is none. Host names, which Kafka takes as well,
    would hold for what they resolve to at some time; a quota that Kafka has stored for one can be
    removed.
    """
    address = entity.as_dict().get(IP)
    if address is None:
        return
    try:
        ip_address(address)
    except ValueError:
        raise invalid_request(f"{address} is not a valid IP or resolvable host.") from None


def check_quota(entity: ClientQuotaEntity, key: str, value: float) -> None:
    """Raises INVALID_REQUEST for a quota that the entity cannot have."""
    keys = _IP_KEYS if IP in entity.as_dict() else _USER_AND_CLIENT_KEYS
    if key not in keys:
        raise invalid_request(f"Invalid configuration key {key}")
    if not value > 0:
        raise invalid_request(f"Quota {key} must be greater than 0")
    if value == inf:
        raise invalid_request(f"Proposed value for {key} is too large for a DOUBLE.")
    largest = keys[key]
    if largest is None:
        return
    if value > float(largest):
        kind = "an INT" if largest == _MAX_INT else "a LONG"
        raise invalid_request(f"Proposed value for {key} is too large for {kind}.")
    if abs(int(value + _FRACTION) - value) > _FRACTION:
        raise invalid_request(f"{key} cannot be a fractional value.")

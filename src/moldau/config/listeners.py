"""Reading ``listeners``, ``advertised.listeners`` and the map of listener names to protocols.

Only text is read here. Which address a listener on every interface should advertise depends on the
machine, so such an endpoint leaves this module with an empty host, and the broker fills it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.config.option import ConfigError
from moldau.config.validators import is_digits

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


class Endpoint(NamedTuple):
    """One listener. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def wildcard(self) -> bool:
        """Whether it stands for every interface, so that its host cannot be told to clients."""
        return self.host in _WILDCARDS


def parse_protocol_map(text: str, key: str) -> dict[str, str]:
    """``NAME:PROTOCOL`` pairs; names are compared in capitals."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.rpartition(":"))
        if not (colon and name):
            raise ConfigError(
                f"Invalid value {text} for configuration {key}: "
                f"'{pair}' is not of the form NAME:PROTOCOL"
            )
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {text} for configuration {key}: '{protocol}' is not one of: "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    values: Iterable[str], protocols: Mapping[str, str], key: str
) -> tuple[Endpoint, ...]:
    """Endpoints from ``NAME://host:port`` texts; ``key`` names the setting in errors."""
    endpoints = tuple(_parse_listener(value, protocols, key) for value in values)
    names: set[str] = set()
    for endpoint in endpoints:
        if endpoint.name in names:
            raise ConfigError(
                f"Invalid value {_joined(endpoints)} for configuration {key}: "
                f"the listener name {endpoint.name} appears twice"
            )
        names.add(endpoint.name)
    return endpoints


def check_ports(endpoints: Sequence[Endpoint], key: str) -> None:
    """Two listeners cannot share a port, unless one binds an IPv4 and one an IPv6 address."""
    for index, one in enumerate(endpoints):
        for other in endpoints[index + 1 :]:
            if one.port == other.port != 0 and not _different_families(one.host, other.host):
                raise ConfigError(
                    f"Invalid value {_joined(endpoints)} for configuration {key}: "
                    f"the listeners {one.name} and {other.name} share port {one.port}"
                )


def _parse_listener(value: str, protocols: Mapping[str, str], key: str) -> Endpoint:
    name, separator, address = value.partition("://")
    host, colon, port_text = address.rpartition(":")
    host = host.strip()
    bracketed = host.startswith("[") and host.endswith("]")
    port = int(port_text) if is_digits(port_text) and len(port_text) <= 5 else -1
    malformed = not (separator and name and colon) or (":" in host and not bracketed)
    if malformed or "/" in host or not 0 <= port <= 65_535:
        raise ConfigError(
            f"Invalid value {value} for configuration {key}: must look like NAME://host:port, with "
            "a port from 0 to 65535 and an IPv6 address in brackets"
        )
    name = name.strip().upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"Invalid value {value} for configuration {key}: no protocol is known for the listener "
            f"{name}; add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return Endpoint(name, host[1:-1] if bracketed else host, port, protocol)


def _different_families(one: str, other: str) -> bool:
    return (":" in one and _is_ipv4(other)) or (":" in other and _is_ipv4(one))


def _is_ipv4(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and all(is_digits(part) and int(part) < 256 for part in parts)


def _joined(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(str(endpoint) for endpoint in endpoints)

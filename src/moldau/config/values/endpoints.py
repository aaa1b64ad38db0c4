"""Reading ``listeners``, ``advertised.listeners`` and the map of listener names to protocols.

Only text is read here. Which address a listener on every interface should advertise depends on the
machine, so such an endpoint leaves this module with an empty host, and the broker fills it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.config.option import invalid_value
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.listeners import PLAINTEXT, SECURITY_PROTOCOLS
from moldau.config.validators import is_digits

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


def open_endpoints(options: BrokerOptions) -> tuple[Endpoint, ...]:
    """Endpoints to open, without a KRaft controller's. An empty host is every interface."""
    key = BrokerOptions.listeners.name
    endpoints = parse_listeners(options.listeners, _protocols(options), key)
    check_ports(endpoints, key)
    return tuple(
        endpoint for endpoint in endpoints if endpoint.name not in _controller_names(options)
    )


def advertised_endpoints(
    options: BrokerOptions, opened: Sequence[Endpoint]
) -> tuple[Endpoint, ...]:
    """Endpoints to tell clients, in the order of ``opened``.

    An empty host stands for one that only the running machine can know (the listener is on every
    interface): the broker replaces it by the host name if that resolves, else by the machine's
    address, else by 127.0.0.1. Port 0 stands for the port that the listener got.
    """
    if options.advertised_listeners is None:
        return tuple(
            endpoint._replace(host="") if endpoint.wildcard else endpoint for endpoint in opened
        )
    key = BrokerOptions.advertised_listeners.name
    by_name = {
        endpoint.name: endpoint
        for endpoint in parse_listeners(options.advertised_listeners, _protocols(options), key)
        if endpoint.name not in _controller_names(options)
    }
    for endpoint in by_name.values():
        if endpoint.wildcard:
            reason = "clients cannot connect to every interface at once; name a host"
            raise invalid_value(key, str(endpoint), reason)
        if endpoint.name not in {listener.name for listener in opened}:
            reason = f"listeners has no listener named {endpoint.name}"
            raise invalid_value(key, str(endpoint), reason)
    advertised = (by_name.get(endpoint.name) for endpoint in opened)
    return tuple(endpoint for endpoint in advertised if endpoint is not None)


def metrics_endpoint(options: BrokerOptions) -> Endpoint | None:
    """Where metrics are served, if they are."""
    if not options.metrics_listener:
        return None
    key = BrokerOptions.metrics_listener.name
    return parse_listeners([options.metrics_listener], {"HTTP": PLAINTEXT}, key)[0]


def _protocols(options: BrokerOptions) -> dict[str, str]:
    protocols = parse_protocol_map(
        options.listener_security_protocol_map, BrokerOptions.listener_security_protocol_map.name
    )
    for name in _controller_names(options):
        protocols.setdefault(name, PLAINTEXT)
    return protocols


def _controller_names(options: BrokerOptions) -> set[str]:
    return {name.upper() for name in options.controller_listener_names}


def parse_protocol_map(text: str, key: str) -> dict[str, str]:
    """``NAME:PROTOCOL`` pairs; names are compared in capitals."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.rpartition(":"))
        if not (colon and name):
            raise invalid_value(key, text, f"'{pair}' is not of the form NAME:PROTOCOL")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            allowed = ", ".join(SECURITY_PROTOCOLS)
            raise invalid_value(key, text, f"'{protocol}' is not one of: {allowed}")
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
            reason = f"the listener name {endpoint.name} appears twice"
            raise invalid_value(key, _joined(endpoints), reason)
        names.add(endpoint.name)
    return endpoints


def check_ports(endpoints: Sequence[Endpoint], key: str) -> None:
    """Two listeners cannot share a port, unless one binds an IPv4 and one an IPv6 address."""
    for index, one in enumerate(endpoints):
        for other in endpoints[index + 1 :]:
            if one.port == other.port != 0 and not _different_families(one.host, other.host):
                reason = f"the listeners {one.name} and {other.name} share port {one.port}"
                raise invalid_value(key, _joined(endpoints), reason)


def _parse_listener(value: str, protocols: Mapping[str, str], key: str) -> Endpoint:
    name, separator, address = value.partition("://")
    host, colon, port_text = address.rpartition(":")
    host = host.strip()
    bracketed = host.startswith("[") and host.endswith("]")
    port = int(port_text) if is_digits(port_text) and len(port_text) <= 5 else -1
    malformed = not (separator and name and colon) or (":" in host and not bracketed)
    if malformed or "/" in host or not 0 <= port <= 65_535:
        raise invalid_value(
            key,
            value,
            "must look like NAME://host:port, with a port from 0 to 65535 and an IPv6 address in "
            "brackets",
        )
    name = name.strip().upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise invalid_value(
            key,
            value,
            f"no protocol is known for the listener {name}; add {name}:PLAINTEXT to "
            "listener.security.protocol.map",
        )
    return Endpoint(name, host[1:-1] if bracketed else host, port, protocol)


def _different_families(one: str, other: str) -> bool:
    return (":" in one and _is_ipv4(other)) or (":" in other and _is_ipv4(one))


def _is_ipv4(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and all(is_digits(part) and int(part) < 256 for part in parts)


def _joined(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(str(endpoint) for endpoint in endpoints)

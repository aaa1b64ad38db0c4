"""Reading ``host:port`` lists."""

from __future__ import annotations

DEFAULT_PORT = 9092


def parse_bootstrap(servers: str) -> list[tuple[str, int]]:
    """``"a:9092,[::1]:9093,b"`` as pairs; the port defaults to 9092.

    Raises ``ValueError`` that names the part which is not an address.
    """
    addresses = [_parse(part.strip()) for part in servers.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no bootstrap server given: use host:port, or several separated by commas")
    return addresses


def _parse(part: str) -> tuple[str, int]:
    if "://" in part:
        raise ValueError(f"{part!r} is a URL: bootstrap servers are host:port without a scheme")
    if part.startswith("["):
        host, bracket, rest = part[1:].partition("]")
        port = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{part!r} is not an address: use [ipv6]:port")
    elif part.count(":") > 1:
        host, port = part, ""
    else:
        host, _, port = part.partition(":")
    if not port:
        port = str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{part!r} is not an address: use host:port with a port from 1 to 65535")
    return host, int(port)


def show(host: str, port: int) -> str:
    """Returns the address as it is written, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""Whether what is said to a host stays on this machine."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """``host`` is a name or an address, of version 6 without brackets."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

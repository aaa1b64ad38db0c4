"""Addresses with passwords in them: those that could be taken for something else are refused.

Where a password has an ``@`` or a ``/`` as it is, a part of it becomes a host or a port, which
drivers name in what they complain of.
"""

from __future__ import annotations

from typing import Final

HINT: Final = "signs like @, / and % in names and passwords are written %40, %2F and %25"


def is_unclear(address: str) -> bool:
    """Whether a part of a password may stand where another part of the address is looked for."""
    scheme, found, rest = address.partition("://")
    if not found:
        return "@" in scheme
    authority, _, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    if "@" in login or (authority and not at and "@" in path.partition("?")[0]):
        return True
    return any(not _has_port(one) for one in hosts.partition("?")[0].split(","))


def _has_port(host: str) -> bool:
    """Or none."""
    port = host.rpartition("]")[2].partition(":")[2]
    return not port or port.isdecimal()

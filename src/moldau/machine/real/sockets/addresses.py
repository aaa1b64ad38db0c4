"""Which host to tell clients when a listener is open on every interface.

The host name, if it resolves to an address of this machine: that is what other machines are most
likely to know. Otherwise the machine's own address, otherwise 127.0.0.1, so that clients on the
same machine always get through.
"""

from __future__ import annotations

import asyncio
import socket

RESOLVE_TIMEOUT_S = 1.0
# A documentation address (RFC 5737): a UDP socket "connected" to it sends nothing, but has to
# choose its own address.
SOMEWHERE_ELSE = ("192.0.2.1", 9)
LOOPBACK = "127.0.0.1"


async def reachable_host() -> str:
    """Returns a host under which clients reach this machine."""
    name = socket.gethostname()
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(
            loop.getaddrinfo(name, None, type=socket.SOCK_STREAM), RESOLVE_TIMEOUT_S
        )
    except (OSError, TimeoutError):
        found = []
    if any(_is_ours(family, str(address[0])) for family, _, _, _, address in found):
        return name
    return _outgoing_address() or LOOPBACK


def _is_ours(family: int, address: str) -> bool:
    """Only an address of this machine can be bound."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _outgoing_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(SOMEWHERE_ELSE)
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return address

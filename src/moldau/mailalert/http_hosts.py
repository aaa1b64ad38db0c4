"""The hosts that the status page answers for.

A page that somebody looks at may have a name that suddenly means this machine (DNS rebinding); the
browser then takes what is here for that page's own. Its requests name the page's host, and an
address as a host cannot be made to mean something else.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+?)\.?)(?::\d+)?")


class KnownHosts:
    """Passes on what is for this machine, by address or by one of its names."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        own = ("localhost", socket.gethostname(), *names)
        self._names = {name.lower().rstrip(".") for name in own}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self.knows(Headers(scope=scope).getlist("host")):
            refusal = {"error": "this is another host; http.hosts lists the names of this one"}
            await JSONResponse(refusal, 421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def knows(self, hosts: list[str]) -> bool:
        """Returns whether there is one ``Host``, and it is ours."""
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if match is None:
            return False
        host = match[1] or match[2]
        return host in self._names or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

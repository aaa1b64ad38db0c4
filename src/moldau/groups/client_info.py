"""Who sent a request, as group descriptions show it."""

from __future__ import annotations

from typing import NamedTuple


class ClientInfo(NamedTuple):
    client_id: str
    client_host: str

"""Telling systemd what a run does (``Type=notify``): no library is needed for a few bytes."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

_SAID: Final = {"running": "READY=1\nSTATUS=running", "stopping": "STOPPING=1\nSTATUS=stopping"}


def notify(state: str) -> None:
    """Nothing, if no service manager has said where it listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(_SAID.get(state, f"STATUS={state}").encode(), address)

"""Which process of this machine one is: by that name its consumer group knows it again.

A member that comes back under its ``group.instance.id`` takes up its partitions at once (KIP-345).
Without one, the group first waits until the session of the member that was killed is over.
"""

from __future__ import annotations

import hashlib
import re
import socket
import sys
from contextlib import ExitStack
from typing import Final

_MOST: Final = 100
"""Processes of one group on one machine."""


def claim_instance(group: str, until: ExitStack) -> str | None:
    """Returns a name that is made of those of this machine and the group, and of the first number
    that no other process here has in the group. It is kept until the end of ``until``, or of the
    process, whatever ends it.

    The number is the name of a socket, which takes no file and is free the moment its process is
    gone. None where there is no such thing: then this is a member like any other.
    """
    if sys.platform != "linux":
        return None
    key = hashlib.sha256(group.encode()).hexdigest()[:12]
    for number in range(_MOST):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0moldau-mailalert/{key}/{number}")
        except OSError:
            claim.close()
            continue
        until.callback(claim.close)
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:200]
        return f"mailalert-{host}-{key}-{number}"
    return None

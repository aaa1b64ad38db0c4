"""Who is let in while a broker joins a cluster: brokers, to tell it what it has to know.

A broker that has not been told everything would send clients away from partitions that it leads,
and tell them that topics do not exist. Until then a client is sent away as if nobody listened; it
turns to another broker, or comes again.
"""

from __future__ import annotations

from moldau.broker.router import Answer, Router
from moldau.net import ServerConnection
from moldau.wire.api import ApiKey
from moldau.wire.headers import FIRST_PRIVATE_KEY


class Entrance:
    """The handler of the listener between brokers until ``open``."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._is_open = False

    def open(self) -> None:
        self._is_open = True

    def __call__(self, connection: ServerConnection, frame: memoryview) -> Answer:
        if not self._is_open:
            key = int.from_bytes(frame[:2], "big", signed=True)
            is_for_brokers = key >= FIRST_PRIVATE_KEY or connection.broker_id >= 0
            if key != ApiKey.API_VERSIONS and not is_for_brokers:
                connection.close()
                return None
        return self._router(connection, frame)

"""Whether a Spark Connect server is there, and all that is needed to talk to it."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

_CONNECT_PORT: Final = 15002


class ServerNotFoundError(RuntimeError):
    """There is no Spark Connect server, or nothing to talk to it with."""


def check_connect_server(url: str, timeout: float = 10.0) -> None:
    """Spark's client would go on trying for ten minutes."""
    url = url.partition(";")[0]  # parameters, of which one is the token
    for module in ("grpc", "grpc_status", "zstandard"):
        if find_spec(module) is None:
            raise ServerNotFoundError(
                f"Spark Connect ({url}) needs {module}: pip install 'pyspark[connect]'"
            )
    place = urlsplit(url)
    host, port = place.hostname or "localhost", place.port or _CONNECT_PORT
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except OSError as error:
        raise ServerNotFoundError(
            f"No Spark Connect server answers at {host}:{port}: {error.strerror or error}"
        ) from None

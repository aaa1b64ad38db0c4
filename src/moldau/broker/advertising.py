"""What clients are told of a broker's listeners."""

from __future__ import annotations

from moldau.config.values.endpoints import Endpoint
from moldau.machine import Network


async def advertise(
    network: Network, endpoints: tuple[Endpoint, ...], ports: dict[str, int]
) -> list[Endpoint]:
    """Endpoints as clients are told them: no empty host, no port 0."""
    open_everywhere = any(not endpoint.host for endpoint in endpoints)
    host = await network.reachable_host() if open_everywhere else ""
    return [
        endpoint._replace(host=endpoint.host or host, port=endpoint.port or ports[endpoint.name])
        for endpoint in endpoints
    ]

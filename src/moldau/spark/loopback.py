"""Spark's web UI for this machine only: it shows settings and SQL, and stops jobs, without a login.

Spark binds it to the address in ``SPARK_LOCAL_IP`` and to all addresses without one. By the same
variable a driver would tell executors on other machines to call it at that address, so that has to
be said apart from it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

LOCAL_IP: Final = "SPARK_LOCAL_IP"
DRIVER_HOST: Final = "spark.driver.host"
_LOOPBACK: Final = "127.0.0.1"
_ANY_PORT: Final = 7077
"""No packet is sent there."""


def loopback_ui(
    master: str, config: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Variables and settings for it; none if somebody has chosen an address."""
    chosen = environment.get(LOCAL_IP, _LOOPBACK) != _LOOPBACK
    if chosen or config.get("spark.ui.enabled") == "false":
        return {}, {}
    if master.startswith("local") or DRIVER_HOST in config:
        return {LOCAL_IP: _LOOPBACK}, {}
    address = _address_towards(master)
    if address is None:
        return {}, {}  # executors that find their driver come first
    return {LOCAL_IP: _LOOPBACK}, {DRIVER_HOST: address}


def _address_towards(master: str) -> str | None:
    """The address of this machine in the network that a master is in."""
    place = urlsplit(master.removeprefix("k8s://").partition(",")[0])
    if place.hostname is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((place.hostname, place.port or _ANY_PORT))
        except OSError:
            return None
        name: str = probe.getsockname()[0]
    return name

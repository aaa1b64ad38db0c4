"""What settings belong to, as the config APIs number it."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """Kinds of things that have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

"""A described setting, as brokers answer it and clients read it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from moldau.config.types import ConfigType


class ConfigSource(IntEnum):
    """Where a setting's value comes from, numbered as DescribeConfigs sends it.

    Among those of one broker a lower number wins.
    """

    UNKNOWN = 0
    TOPIC = 1
    """Set for the topic itself (Kafka's DYNAMIC_TOPIC_CONFIG)."""
    BROKER = 2
    """Set at run time for one broker (DYNAMIC_BROKER_CONFIG)."""
    CLUSTER_DEFAULT = 3
    """Set at run time for all brokers (DYNAMIC_DEFAULT_BROKER_CONFIG)."""
    SERVER_PROPERTIES = 4
    """From the broker's file (STATIC_BROKER_CONFIG)."""
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """A place from which the value could come; the first of several wins."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One described setting."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

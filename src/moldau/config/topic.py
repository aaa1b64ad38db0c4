"""From a topic's own settings to what holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.config.broker import BrokerConfig
from moldau.config.option import ConfigError
from moldau.config.tables import TOPIC_OPTIONS
from moldau.config.topic_values import TopicConfig

_FIELDS = frozenset(TopicConfig.__slots__)


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """What holds for a topic with these settings of its own.

    A bad value raises ``ConfigError`` (INVALID_CONFIG). An unknown name is left out, as Kafka does:
    it can only come from stored data, because ``validate_topic_configs`` refuses it at the door.
    Topics without settings share one object.
    """
    defaults = broker.topic_defaults
    if not overrides:
        return defaults
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        option = TOPIC_OPTIONS.get(name)
        if option is None:
            continue
        field = name.replace(".", "_")
        value = option.parse(text)
        if name == "cleanup.policy":
            value = frozenset(value)
        if field in _FIELDS:
            values[field] = value
    small = overrides.get("internal.segment.bytes")
    if small is not None:
        values["segment_bytes"] = TOPIC_OPTIONS["internal.segment.bytes"].parse(small)
    return replace(defaults, **values)


def validate_topic_configs(
    overrides: Mapping[str, str | None], broker: BrokerConfig | None = None
) -> None:
    """Raise ``ConfigError`` unless these may be a topic's settings.

    ``broker`` supplies what the topic leaves open, for the rules that tie two settings together;
    without it, defaults do.
    """
    settings: dict[str, str] = {}
    for name, text in overrides.items():
        option = TOPIC_OPTIONS.get(name)
        if option is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        value = option.parse(text)
        if name == "remote.storage.enable" and value:
            raise ConfigError(
                "Invalid value true for configuration remote.storage.enable: tiered storage is not "
                "served; must be false"
            )
        settings[name] = text
    config = topic_config(BrokerConfig({}) if broker is None else broker, settings)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms} must not exceed "
            f"max.compaction.lag.ms={config.max_compaction_lag_ms}"
        )

"""From a group's own settings to what holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.config.broker import BrokerConfig
from moldau.config.option import AnyOption, ConfigError, parse_int
from moldau.config.per_group_options import (
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    LIMITS,
    Limit,
    broker_setting,
)
from moldau.config.tables import BROKER_OPTIONS, GROUP_OPTIONS


class GroupConfig(NamedTuple):
    """What holds for one group under the consumer protocol. The defaults are Kafka's."""

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_assignment_interval_ms: int = 1000


def group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """What holds for a group with these settings of its own.

    They were within the broker's bounds when they were stored; if the bounds are others by now,
    the nearest value that they allow holds.
    """

    def value(option: AnyOption) -> int:
        text = overrides.get(option.name)
        if text is None:
            return int(broker_value(broker, option))
        number = int(option.parse(text))
        low, high = LIMITS[option.name]
        if high is not None:
            number = min(number, _bound(broker, high))
        return number if low is None else max(number, _bound(broker, low))

    return GroupConfig(
        value(CONSUMER_SESSION_TIMEOUT_MS),
        value(CONSUMER_HEARTBEAT_INTERVAL_MS),
        value(CONSUMER_ASSIGNMENT_INTERVAL_MS),
    )


def broker_value(broker: BrokerConfig, option: AnyOption) -> Any:
    """What the broker's settings say for a group setting that the group leaves open."""
    name = broker_setting(option.name)
    if name is None:
        return option.default
    known = BROKER_OPTIONS.get(name)
    if known is not None:
        return broker[known]
    given = next(broker.settings_of(name), None)
    try:
        return option.default if given is None else option.parse(given.text)
    except ConfigError:  # nobody has checked a setting that has no effect
        return option.default


def validate_group_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ``ConfigError`` unless these may be a group's settings."""
    for name in overrides:
        if name not in GROUP_OPTIONS:
            raise ConfigError(f"Unknown group config name: {name}")
    values = {
        name: option.parse(overrides[name]) if name in overrides else broker_value(broker, option)
        for name, option in GROUP_OPTIONS.items()
    }
    for name, (low, high) in LIMITS.items():
        if low is not None and values[name] < _bound(broker, low):
            raise ConfigError(f"{name} must be greater than or equal to {low.name}")
        if high is not None and values[name] > _bound(broker, high):
            raise ConfigError(f"{name} must be less than or equal to {high.name}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def _bound(broker: BrokerConfig, limit: Limit) -> int:
    known = BROKER_OPTIONS.get(limit.name)
    if known is not None:
        return int(broker[known])
    given = next(broker.settings_of(limit.name), None)
    try:
        return limit.default if given is None else parse_int(given.text.strip())
    except ValueError:
        return limit.default

"""From a group's own settings to what holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.config.option import AnyOption, ConfigError, Option
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import BOUNDS, GroupOptions
from moldau.config.values.broker import BrokerConfig


class GroupConfig(NamedTuple):
    """What holds for one group under the consumer protocol."""

    consumer_session_timeout_ms: int = GroupOptions.consumer_session_timeout_ms.default
    consumer_heartbeat_interval_ms: int = GroupOptions.consumer_heartbeat_interval_ms.default
    consumer_assignment_interval_ms: int = GroupOptions.consumer_assignment_interval_ms.default


def group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """What holds for a group with these settings of its own.

    They were within the broker's bounds when they were stored; if the bounds are others by now,
    the nearest value that they allow holds.
    """

    def value(option: Option[int]) -> int:
        text = overrides.get(option.name)
        if text is None:
            return int(broker_value(broker, option))
        number = option.parse(text)
        low, high = BOUNDS[option.name]
        number = min(number, int(value_or_default(broker, high)))
        return number if low is None else max(number, int(value_or_default(broker, low)))

    return GroupConfig(
        value(GroupOptions.consumer_session_timeout_ms),
        value(GroupOptions.consumer_heartbeat_interval_ms),
        value(GroupOptions.consumer_assignment_interval_ms),
    )


def broker_value(broker: BrokerConfig, option: AnyOption) -> Any:
    """What the broker's settings say for a group setting that the group leaves open."""
    if not option.synonyms:
        return option.default
    return value_or_default(broker, option.synonyms[0].option)


def value_or_default(broker: BrokerConfig, option: AnyOption) -> Any:
    """The value of a broker's option, also of one that is accepted without effect."""
    if option.name in BrokerOptions.table:
        return broker.value(option)
    for text, _ in broker.settings_of(option.name):
        try:
            return option.parse(text)
        except ConfigError:  # nobody has checked a setting that has no effect
            break
    return option.default

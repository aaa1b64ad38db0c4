"""Whether settings may be stored: for a broker, a topic, a group, a client metrics subscription."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moldau.config.altering.listeners import check_listeners
from moldau.config.option import ConfigError, Update
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.client_metrics import ClientMetricsOptions
from moldau.config.options.group import BOUNDS, GroupOptions
from moldau.config.options.ignored import ignored_names
from moldau.config.options.listeners import without_listener
from moldau.config.options.network import LISTENER_LIMITS
from moldau.config.options.topic import TopicOptions
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.group import broker_value, value_or_default
from moldau.errors import invalid_request

_OF_ALL_BROKERS: Final = frozenset({*LISTENER_LIMITS, BrokerOptions.num_network_threads.name})
"""What of a listener may be the same on all brokers. The rest (keys, logins) is a broker's own."""

_PUSH_INTERVALS_MS: Final = range(100, 3_600_000 + 1)
_CLIENT_SELECTORS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_broker_update(
    config: BrokerConfig, settings: Mapping[str, str], *, per_broker: bool
) -> BrokerConfig:
    """Returns what would hold; raises ``KafkaError`` (INVALID_REQUEST, as Kafka) unless these may
    be stored.

    ``settings`` are all that would be stored for this broker (``per_broker``) or for all brokers.
    An unknown name passes, as in Kafka, where it may belong to a plug-in.
    """
    fixed = [name for name in settings if _is_fixed(name)]
    if fixed:
        raise invalid_request(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    if not per_broker:
        local = [name for name in settings if _is_local(name)]
        if local:
            raise invalid_request(
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: [{', '.join(local)}]"
            )
    try:
        if per_broker:
            changed = config.with_dynamic(config.cluster_dynamic, settings, strict=True)
        else:
            changed = config.with_dynamic(settings, config.broker_dynamic, strict=True)
        check_listeners(config, changed)
    except ConfigError as error:
        raise invalid_request(error.message) from None
    return changed


def validate_topic_configs(
    overrides: Mapping[str, str | None], broker: BrokerConfig | None = None
) -> None:
    """Raise ``ConfigError`` unless these may be a topic's settings.

    ``broker`` supplies what the topic leaves open, for the rules that tie two settings together;
    without it, defaults do.
    """
    settings: dict[str, str] = {}
    for name, text in overrides.items():
        option = TopicOptions.table.get(name)
        if option is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        value = option.parse(text)
        if option is TopicOptions.remote_storage_enable and value:
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage."
            )
        settings[name] = text
    config = (BrokerConfig({}) if broker is None else broker).topic_defaults.override(settings)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms} must not exceed "
            f"max.compaction.lag.ms={config.max_compaction_lag_ms}"
        )


def validate_group_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ``ConfigError`` unless these may be a group's settings."""
    for name in overrides:
        if name not in GroupOptions.table:
            raise ConfigError(f"Unknown group config name: {name}")
    values = {
        name: option.parse(overrides[name]) if name in overrides else broker_value(broker, option)
        for name, option in GroupOptions.table.items()
    }
    for name, (low, high) in BOUNDS.items():
        if low is not None and values[name] < value_or_default(broker, low):
            raise ConfigError(f"{name} must be greater than or equal to {low.name}")
        if values[name] > value_or_default(broker, high):
            raise ConfigError(f"{name} must be less than or equal to {high.name}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def validate_client_metrics_configs(overrides: Mapping[str, str]) -> None:
    """Raise ``KafkaError`` unless these may be the settings of a client metrics subscription."""
    for name in overrides:
        if name not in ClientMetricsOptions.table:
            raise invalid_request(f"Unknown client metrics configuration: {name}")
    values = {
        name: ClientMetricsOptions.table[name].parse(text) for name, text in overrides.items()
    }
    interval_ms = values.get("interval.ms", ClientMetricsOptions.interval_ms.default)
    if interval_ms not in _PUSH_INTERVALS_MS:
        raise invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and "
            "3600000 (1 hour)"
        )
    for pattern in values.get("match", ()):
        if not _is_client_pattern(pattern):
            raise ConfigError(f"Illegal client matching pattern: {pattern}")


def _is_client_pattern(text: str) -> bool:
    selector, _, pattern = text.partition("=")
    if selector.strip() not in _CLIENT_SELECTORS or not pattern or "=" in pattern:
        return False
    try:
        re.compile(pattern.strip())
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_fixed(name: str) -> bool:
    option = BrokerOptions.table.get(name)
    return name in ignored_names() if option is None else option.update is Update.READ_ONLY


def _is_local(name: str) -> bool:
    of_listener = without_listener(name)
    if of_listener is not None:
        return of_listener not in _OF_ALL_BROKERS
    option = BrokerOptions.table.get(name)
    return option is not None and option.update is Update.PER_BROKER

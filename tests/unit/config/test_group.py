"""What holds for a group: its own settings, the broker's, and the bounds between them."""

from __future__ import annotations

import pytest

from moldau.config import (
    BrokerConfig,
    ConfigError,
    ConfigSource,
    GroupConfig,
    describe_group,
    group_config,
    validate_group_configs,
)

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
WIDE = {
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.max.session.timeout.ms": "99999",
}


def test_a_group_without_settings_follows_the_broker() -> None:
    assert group_config(BrokerConfig({}), {}) == GroupConfig(45_000, 5000, 1000)
    broker = BrokerConfig({f"group.{HEARTBEAT}": "6000"})
    assert group_config(broker, {SESSION: "50000"}) == GroupConfig(50_000, 6000, 1000)


def test_a_stored_value_out_of_bounds_gives_way_to_the_nearest_allowed() -> None:
    validate_group_configs({SESSION: "90000"}, BrokerConfig(WIDE))
    assert group_config(BrokerConfig(WIDE), {SESSION: "90000"})[0] == 90_000
    assert group_config(BrokerConfig({}), {SESSION: "90000"})[0] == 60_000
    assert group_config(BrokerConfig({}), {SESSION: "10000"})[0] == 45_000


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({SESSION: "44999"}, f"{SESSION} must be greater than or equal to group.consumer.min"),
        ({SESSION: "60001"}, f"{SESSION} must be less than or equal to group.consumer.max"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"group.max.size": "3"}, "Unknown group config name: group.max.size"),
    ],
)
def test_refusals_name_the_bound(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        validate_group_configs(settings, BrokerConfig({}))


def test_bounds_that_are_otherwise_without_effect_hold_too() -> None:
    broker = BrokerConfig({"group.share.max.delivery.count.limit": "20"})
    validate_group_configs({"share.delivery.count.limit": "20"}, broker)
    with pytest.raises(ConfigError, match=r"group\.share\.max\.delivery\.count\.limit"):
        validate_group_configs({"share.delivery.count.limit": "21"}, broker)


def test_a_session_must_outlive_a_heartbeat() -> None:
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        validate_group_configs({SESSION: "5000"}, BrokerConfig(WIDE))


def test_the_brokers_file_is_among_the_sources() -> None:
    broker = BrokerConfig({f"group.{SESSION}": "46000", "group.share.session.timeout.ms": "47000"})
    entries = {entry.name: entry for entry in describe_group(broker, {})}
    for name, value in ((SESSION, "46000"), ("share.session.timeout.ms", "47000")):
        assert (entries[name].value, entries[name].source) == (
            value,
            ConfigSource.STATIC_BROKER_CONFIG,
        )
        assert [(one.name, one.value) for one in entries[name].synonyms] == [
            (f"group.{name}", value),
            (f"group.{name}", "45000"),
        ]

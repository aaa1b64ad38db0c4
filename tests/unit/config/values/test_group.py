"""What holds for a group: its own settings, the broker's, and the bounds between them."""

from __future__ import annotations

from moldau.config.altering.validation import validate_group_configs
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.group import GroupConfig, group_config

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

"""Settings in force: what topics get, and what a change at run time changes."""

from __future__ import annotations

import pytest

from moldau.broker.configs import Configs
from moldau.config.values.broker import BrokerConfig


def make_configs(**settings: str) -> Configs:
    given = {"node.id": "1", "log.dirs": "/unused"}
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    return Configs(BrokerConfig.load(given))


def test_a_topic_without_settings_has_the_brokers() -> None:
    configs = make_configs(message_max_bytes="5000")
    assert configs.topic("t").max_message_bytes == 5000
    assert configs.topic("t") is configs.topic("u"), "ten thousand topics share one object"
    assert configs.topic_overrides("t") == {}


def test_a_topics_own_settings_come_before_the_brokers() -> None:
    configs = make_configs(message_max_bytes="5000")
    assert configs.update({"t": {"max.message.bytes": "10"}}, {}) == ["t"]
    assert configs.topic("t").max_message_bytes == 10
    assert configs.topic("u").max_message_bytes == 5000
    assert configs.topic_overrides("t") == {"max.message.bytes": "10"}


def test_settings_are_replaced_as_a_whole() -> None:
    configs = make_configs()
    configs.update({"t": {"max.message.bytes": "10", "retention.ms": "5"}}, {})
    configs.update({"t": {"retention.ms": "6"}}, {})
    assert configs.topic("t").retention_ms == 6
    assert configs.topic("t").max_message_bytes == configs.broker.message_max_bytes
    configs.update({"t": {}}, {})
    assert configs.topic("t") is configs.topic("u")


def test_a_run_time_setting_of_the_broker_changes_every_topic() -> None:
    configs = make_configs()
    configs.update({"own": {"retention.ms": "5"}}, {})
    before = configs.topic("plain")
    assert configs.update({}, {"1": {"message.max.bytes": "77"}}) is None, "all topics"
    assert configs.topic("plain").max_message_bytes == 77 != before.max_message_bytes
    assert configs.topic("own").max_message_bytes == 77
    assert configs.topic("own").retention_ms == 5
    assert configs.update({}, {"1": {}}) is None
    assert configs.topic("plain") == before


def test_settings_of_one_broker_come_before_those_of_all() -> None:
    configs = make_configs(message_max_bytes="5000")
    configs.update({}, {"": {"message.max.bytes": "60"}})
    assert configs.topic("t").max_message_bytes == 60
    configs.update({}, {"1": {"message.max.bytes": "70"}})
    assert configs.topic("t").max_message_bytes == 70
    configs.update({}, {"": {}})
    assert configs.topic("t").max_message_bytes == 70
    configs.update({}, {"1": {}})
    assert configs.topic("t").max_message_bytes == 5000


def test_settings_of_other_brokers_do_not_matter() -> None:
    configs = make_configs()
    before = configs.broker
    told: list[BrokerConfig] = []
    configs.on_broker_change.append(told.append)
    assert configs.update({"t": {"retention.ms": "5"}}, {"2": {"message.max.bytes": "60"}}) == ["t"]
    assert configs.broker is before
    assert told == []


def test_whoever_wants_to_know_is_told_of_new_broker_settings() -> None:
    configs = make_configs()
    told: list[int] = []
    configs.on_broker_change.append(lambda config: told.append(config.message_max_bytes))
    configs.update({}, {"1": {"message.max.bytes": "60"}})
    configs.update({}, {"": {}})
    assert told == [60, 60]


def test_stored_settings_that_are_no_longer_legal_leave_the_broker_serving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    configs = make_configs()
    configs.update({"t": {"retention.ms": "soon"}}, {"1": {"message.max.bytes": "many"}})
    assert configs.topic("t") == configs.topic("u")
    assert "retention.ms" in caplog.text
    assert "message.max.bytes" in caplog.text


def test_a_forgotten_topic_starts_from_the_defaults_again() -> None:
    configs = make_configs()
    configs.update({"t": {"retention.ms": "5"}}, {})
    assert configs.topic("t").retention_ms == 5
    configs.forget_topic("t")
    configs.forget_topic("t")
    assert configs.topic("t") is configs.topic("u")
    assert configs.topic_overrides("t") == {}

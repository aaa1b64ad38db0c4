"""A topic's own settings over the broker's."""

from __future__ import annotations

import pytest

from moldau.config.altering.validation import validate_topic_configs
from moldau.config.option import ConfigError
from moldau.config.options.topic import TopicOptions
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError

BROKER = BrokerConfig.load({"log.retention.hours": "1", "log.cleaner.min.compaction.lag.ms": "50"})
DEFAULTS = BROKER.topic_defaults


def test_a_topic_without_settings_has_the_brokers_and_shares_one_object() -> None:
    assert BrokerConfig.load().topic_defaults == TopicConfig()
    assert DEFAULTS.override({}) is DEFAULTS.override({})
    assert DEFAULTS.override({}).retention_ms == 3_600_000


def test_a_topics_settings_win() -> None:
    config = DEFAULTS.override(
        {
            "retention.ms": " 5 ",
            "cleanup.policy": "compact, delete",
            "min.cleanable.dirty.ratio": "0.25",
            "preallocate": "TRUE",
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "true",
        }
    )

    assert config.retention_ms == 5
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.compact
    assert config.delete
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.preallocate is True
    assert config.message_timestamp_type == "LogAppendTime"
    assert config.unclean_leader_election_enable is True
    assert config.min_compaction_lag_ms == 50


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    config = DEFAULTS.override({"cleanup.policy": ""})

    assert not config.compact
    assert not config.delete


def test_internal_segment_bytes_goes_below_the_limit_of_segment_bytes() -> None:
    assert DEFAULTS.override({"internal.segment.bytes": "1000"}).segment_bytes == 1000
    both = {"internal.segment.bytes": "1000", "segment.bytes": "2000000"}
    assert DEFAULTS.override(both).segment_bytes == 1000
    with pytest.raises(ConfigError, match="must be at least 1048576"):
        validate_topic_configs({"segment.bytes": "1000"})


def test_settings_without_a_hot_field_and_unknown_ones_from_old_data_change_nothing() -> None:
    odd = {"leader.replication.throttled.replicas": "*", "message.format.version": "2.8"}

    assert DEFAULTS.override(odd) == DEFAULTS.override({})


def test_a_bad_value_is_invalid_config() -> None:
    with pytest.raises(KafkaError) as caught:
        DEFAULTS.override({"segment.ms": "0"})

    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == (
        "Invalid value 0 for configuration segment.ms: Value must be at least 1"
    )


def test_topic_config_cannot_be_changed() -> None:
    config = TopicConfig()
    with pytest.raises(AttributeError):
        config.retention_ms = 5  # type: ignore[misc]


def test_every_hot_topic_field_is_an_option_with_the_same_default() -> None:
    defaults = TopicConfig()
    for field in TopicConfig.__slots__:
        option = TopicOptions.table[field.replace("_", ".")]
        value = getattr(defaults, field)
        assert value == (frozenset(option.default) if field == "cleanup_policy" else option.default)

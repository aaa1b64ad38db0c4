"""A topic's own settings over the broker's."""

from __future__ import annotations

import pytest

from moldau.config import (
    BrokerConfig,
    ConfigError,
    TopicConfig,
    topic_config,
    validate_topic_configs,
)
from moldau.errors import ErrorCode, KafkaError

BROKER = BrokerConfig.load({"log.retention.hours": "1", "log.cleaner.min.compaction.lag.ms": "50"})


def test_a_topic_without_settings_has_the_brokers_and_shares_one_object() -> None:
    assert topic_config(BrokerConfig.load(), {}) == TopicConfig()
    assert topic_config(BROKER, {}) is topic_config(BROKER, {})
    assert topic_config(BROKER, {}).retention_ms == 3_600_000


def test_a_topics_settings_win() -> None:
    config = topic_config(
        BROKER,
        {
            "retention.ms": " 5 ",
            "cleanup.policy": "compact, delete",
            "min.cleanable.dirty.ratio": "0.25",
            "preallocate": "TRUE",
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "true",
        },
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
    config = topic_config(BROKER, {"cleanup.policy": ""})

    assert not config.compact
    assert not config.delete


def test_internal_segment_bytes_goes_below_the_limit_of_segment_bytes() -> None:
    assert topic_config(BROKER, {"internal.segment.bytes": "1000"}).segment_bytes == 1000
    both = {"internal.segment.bytes": "1000", "segment.bytes": "2000000"}
    assert topic_config(BROKER, both).segment_bytes == 1000
    with pytest.raises(ConfigError, match="must be at least 1048576"):
        validate_topic_configs({"segment.bytes": "1000"})


def test_settings_without_a_hot_field_and_unknown_ones_from_old_data_change_nothing() -> None:
    odd = {"leader.replication.throttled.replicas": "*", "message.format.version": "2.8"}

    assert topic_config(BROKER, odd) == topic_config(BROKER, {})


def test_a_bad_value_is_invalid_config() -> None:
    with pytest.raises(KafkaError) as caught:
        topic_config(BROKER, {"segment.ms": "0"})

    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == (
        "Invalid value 0 for configuration segment.ms: must be at least 1"
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"log.segment.bytes": "2000000"}, "Unknown topic config name: log.segment.bytes"),
        ({"segment.ms": None}, "Null value not supported for topic configs: segment.ms"),
        ({"segment.ms": ""}, "must be a whole number"),
        ({"retention.ms": "-2"}, "must be at least -1"),
        ({"max.message.bytes": "2147483648"}, "must be a whole number"),
        ({"cleanup.policy": "compact,tidy"}, "'tidy' is not one of: compact, delete"),
        ({"compression.type": "GZIP"}, "must be one of: uncompressed, zstd, lz4, snappy, gzip"),
        ({"compression.gzip.level": "0"}, "must be 1 to 9, or -1"),
        ({"compression.lz4.level": "18"}, "must be 1 to 17"),
        ({"preallocate": "yes"}, "must be true or false"),
        ({"remote.storage.enable": "true"}, "tiered storage is not served"),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "min.compaction.lag.ms=100 must not exceed max.compaction.lag.ms=10",
        ),
    ],
)
def test_settings_that_a_topic_may_not_have(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs(settings)

    assert sentence in str(caught.value)


def test_a_topics_limit_is_held_against_what_the_broker_says() -> None:
    validate_topic_configs({"max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=50"):
        validate_topic_configs({"max.compaction.lag.ms": "10"}, BROKER)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cleanup.policy": ""},
        {"retention.bytes": "-5"},
        {"retention.ms": "-1"},
        {"compression.gzip.level": "-1"},
        {"internal.segment.bytes": "1"},
        {"local.retention.ms": "5"},
        {"follower.replication.throttled.replicas": "*"},
    ],
)
def test_settings_that_kafka_takes_too(settings: dict[str, str]) -> None:
    validate_topic_configs(settings)


def test_topic_config_cannot_be_changed() -> None:
    config = TopicConfig()
    with pytest.raises(AttributeError):
        config.retention_ms = 5  # type: ignore[misc]
